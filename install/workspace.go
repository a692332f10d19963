// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	logicalClusterKind = schema.GroupVersionKind{Group: "core.kcp.io", Version: "v1alpha1", Kind: "LogicalCluster"}
	workspaceKind      = schema.GroupVersionKind{Group: "tenancy.kcp.io", Version: "v1alpha1", Kind: "Workspace"}
)

var clusterPath = regexp.MustCompile(`/clusters/[^/]*/?$`)

// WorkspaceConfig is a configuration of kcp that leads to a workspace, by its path.
func WorkspaceConfig(cfg *rest.Config, workspace string) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Host = strings.TrimRight(clusterPath.ReplaceAllString(cfg.Host, ""), "/") + "/clusters/" + workspace
	return out
}

// ensureWorkspace makes the workspace, and those above it, when they are missing. In a dry run
// it tells whether the workspace exists.
func ensureWorkspace(ctx context.Context, opts Options, report *Report) (exists bool, err error) {
	there, err := ready(ctx, opts, opts.Workspace)
	if err != nil {
		return false, err
	}
	if there {
		report.add("kcp", workspaceKind.Kind, opts.Workspace, Unchanged)
		return true, nil
	}
	at := strings.LastIndex(opts.Workspace, ":")
	parent, name := opts.Workspace[:at], opts.Workspace[at+1:]
	if parent != "root" {
		above := opts
		above.Workspace = parent
		if exists, err := ensureWorkspace(ctx, above, report); err != nil {
			return false, err
		} else if !exists {
			report.add("kcp", workspaceKind.Kind, opts.Workspace, Created)
			return false, nil
		}
	}
	return makeWorkspace(ctx, opts, parent, name, report)
}

// ready tells whether a workspace exists, as far as the administrator may see it.
func ready(ctx context.Context, opts Options, workspace string) (bool, error) {
	c, err := newApplier("kcp", WorkspaceConfig(opts.KCP, workspace), opts, nil)
	if err != nil {
		return false, err
	}
	logical := &unstructured.Unstructured{}
	logical.SetGroupVersionKind(logicalClusterKind)
	err = c.client.Get(ctx, client.ObjectKey{Name: "cluster"}, logical)
	switch {
	case err == nil:
		return phase(logical) == "Ready", nil
	// kcp says Forbidden of a workspace that does not exist.
	case notThere(err), apierrors.IsForbidden(err):
		return false, nil
	default:
		return false, fmt.Errorf("looking for workspace %s: %w", workspace, err)
	}
}

func makeWorkspace(ctx context.Context, opts Options, parent, name string, report *Report) (exists bool, err error) {
	opts.Progress("making workspace " + opts.Workspace)
	a, err := newApplier("kcp", WorkspaceConfig(opts.KCP, parent), opts, report)
	if err != nil {
		return false, err
	}
	workspace := &unstructured.Unstructured{}
	workspace.SetGroupVersionKind(workspaceKind)
	workspace.SetName(name)
	action, err := a.apply(ctx, workspace)
	if err != nil {
		return false, fmt.Errorf("making workspace %s: %w", opts.Workspace, err)
	}
	report.add("kcp", workspaceKind.Kind, opts.Workspace, action)
	if opts.DryRun {
		return false, nil
	}
	err = a.wait(ctx, workspace, func(object *unstructured.Unstructured) bool { return phase(object) == "Ready" })
	if err != nil {
		return false, fmt.Errorf("waiting for workspace %s to be ready: %w", opts.Workspace, err)
	}
	return true, nil
}

func phase(object *unstructured.Unstructured) string {
	p, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return p
}
