// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// ErrAnotherProvider is the error of Init for a name on the runtime cluster that another provider has.
var ErrAnotherProvider = errors.New("another provider has this name on the runtime cluster")

// logicalCluster is the name of the logical cluster of the workspace, which is the provider's identity: every placement
// says it. It is empty in a dry run while there is no workspace.
func (a *applier) logicalCluster(ctx context.Context) (string, error) {
	if a.absent {
		return "", nil
	}
	logical := &unstructured.Unstructured{}
	logical.SetGroupVersionKind(logicalClusterKind)
	if err := a.client.Get(ctx, client.ObjectKey{Name: "cluster"}, logical); err != nil {
		return "", fmt.Errorf("reading the logical cluster of workspace %s: %w", a.opts.Workspace, err)
	}
	return logicalcluster.From(logical).String(), nil
}

// checkOwner refuses to take over what another provider has on the runtime cluster. Both would write one platform, and
// the controllers of the one that came first would lose their rights.
func (a *applier) checkOwner(ctx context.Context) error {
	system := &unstructured.Unstructured{}
	system.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := a.client.Get(ctx, client.ObjectKey{Name: a.system}, system)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the provider's own namespace: %w", err)
	}
	owner := placement.ProviderOf(system)
	if owner == "" || owner == a.opts.provider {
		return nil
	}
	return fmt.Errorf("%w: Namespace %s is of the provider in the logical cluster %s. Give this one another name with --runtime-name, for example blue; "+
		"if that provider is gone for good, let its name go: kubectl annotate namespace %s %s-",
		ErrAnotherProvider, a.system, owner, a.system, placement.AnnotationProvider)
}
