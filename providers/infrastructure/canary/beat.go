// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Beat is what the canary's instance tells somebody who reads it.
type Beat struct {
	// Written is when the controllers wrote the last beat, by their clock. They write one every DefaultInterval while
	// they run.
	Written time.Time
	// CameBack reports whether kro has brought it back.
	CameBack bool
}

// ReadBeat reads the last beat of the provider with some names on a runtime cluster. The error satisfies apierrors.IsNotFound if the controllers have
// never run there, or kro has not made the canary's kind.
func ReadBeat(ctx context.Context, runtime *rest.Config, names placement.Names) (Beat, error) {
	objects, err := dynamic.NewForConfig(runtime)
	if err != nil {
		return Beat{}, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	obj, err := objects.Resource(versionOf(names).WithResource(resource)).Namespace(names.SystemNamespace()).Get(ctx, Name, metav1.GetOptions{})
	if err != nil {
		return Beat{}, fmt.Errorf("reading the canary's instance: %w", err)
	}
	text, _, _ := unstructured.NestedString(obj.Object, "spec", "beat")
	written, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return Beat{}, fmt.Errorf("reading the canary's instance: its beat does not hold a time: %w", err)
	}
	return Beat{Written: written, CameBack: cameBack(obj)}, nil
}
