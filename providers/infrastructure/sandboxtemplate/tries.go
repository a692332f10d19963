// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// triesOrigin is the origin of triesID.
const triesOrigin = "sandbar-tries"

// triesID is that of the namespace in which a provider tries pods. Its name is that of a placement, where the controllers
// may try pods; without the labels it is none. Each provider has its own, since the admission policies let none write in
// another's.
func triesID(provider string) placement.ID {
	return placement.ID{Origin: triesOrigin, UID: types.UID(strings.TrimSuffix("sandboxtemplates-"+provider, "-"))} // a label's value, too
}

// Tries ask the runtime cluster what it would say of pods for which there is no placement yet.
type Tries struct {
	runtime client.Client
	// provider returns the logical cluster of the provider workspace.
	provider func(context.Context) (string, error)

	mu sync.Mutex
	// level is the pod security level of the namespace in which pods are tried, and at when that was last written.
	level string
	at    time.Time
}

// triesKept is for how long the namespace is taken to be as it was written: nobody watches it.
const triesKept = 10 * time.Minute

// NewTries returns Tries on a runtime cluster, of the provider whose workspace has the InfrastructureProvider that kcp
// reads.
func NewTries(runtime client.Client, kcp client.Reader) *Tries {
	return &Tries{runtime: runtime, provider: members.ProviderOf(kcp)}
}

// Try asks the API server what it would say of a pod under a pod security level, and returns why it refuses it; empty
// if it does not.
func (t *Tries) Try(ctx context.Context, level string, pod *podtemplate.Pod) (string, error) {
	provider, err := t.provider(ctx)
	if err != nil {
		return "", err
	}
	if err := t.ensureNamespace(ctx, provider, level); err != nil {
		return "", err
	}
	err = t.runtime.Create(ctx, pod.Sample(triesID(provider).Namespace()), client.DryRunAll, client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return outcome.Shortened(outcome.OneLine(outcome.WhyRefused(err)), outcome.MaxMessage), nil
	case apierrors.IsNotFound(err): // somebody has deleted the namespace
		t.mu.Lock()
		t.level = ""
		t.mu.Unlock()
	}
	return "", fmt.Errorf("trying the pod: %w", err)
}

// ensureNamespace makes the namespace in which pods are tried, with the pod security level of placements.
func (t *Tries) ensureNamespace(ctx context.Context, provider, level string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.level == level && time.Since(t.at) < triesKept {
		return nil
	}
	labels := map[string]string{placement.LabelManagedBy: placement.ManagedBy, placement.LabelPurpose: placement.PurposeTries}
	for _, mode := range []string{"enforce", "warn", "audit"} {
		labels["pod-security.kubernetes.io/"+mode] = level
	}
	config, err := place.ApplyConfiguration(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
			Name: triesID(provider).Namespace(), Labels: labels,
			Annotations: map[string]string{
				placement.AnnotationProvider: provider,
				"kubernetes.io/description":  "Sandbar tries pods of SandboxTemplates and SandboxSets here, in dry runs. Nothing runs in it.",
			},
		},
	})
	if err == nil {
		err = t.runtime.Apply(ctx, client.ApplyConfigurationFromUnstructured(config), client.FieldOwner(fieldOwner), client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("making the namespace in which pods are tried: %w", err)
	}
	t.level, t.at = level, time.Now()
	return nil
}
