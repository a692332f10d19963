// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// fieldOwner is the manager of the fields that init applies. Fields of others in the same
// objects, such as the rules of the policy role, stay theirs.
const fieldOwner = client.FieldOwner("sandbar-init")

// applier applies objects to one side and reports what became of them.
type applier struct {
	where string
	cfg   *rest.Config
	// system is the provider's own namespace there.
	system string
	client client.WithWatch
	opts   Options
	report *Report
	// absent: the workspace does not exist, which happens in a dry run only; then every object
	// would be created.
	absent bool
}

func newApplier(where string, cfg *rest.Config, opts Options, report *Report) (*applier, error) {
	// Objects are read and written without Go types, so the scheme can be empty.
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", where, err)
	}
	system := placement.SystemNamespace
	if where == "runtime" {
		system = opts.names.SystemNamespace()
	}
	return &applier{where: where, cfg: cfg, system: system, client: c, opts: opts, report: report}, nil
}

func (a *applier) applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	var crds []*unstructured.Unstructured // applied, and perhaps not served yet
	for _, object := range objects {
		isCRD := object.GetKind() == "CustomResourceDefinition"
		if !isCRD {
			// All at once: kcp takes five seconds to serve one, however many there are.
			if err := a.established(ctx, crds); err != nil {
				return err
			}
			crds = nil
		}
		action, err := a.apply(ctx, object)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), qualified(object), err)
		}
		a.report.add(a.where, object.GetKind(), qualified(object), action)
		if isCRD && !a.opts.DryRun {
			crds = append(crds, object)
		}
	}
	return a.established(ctx, crds)
}

func qualified(object *unstructured.Unstructured) string {
	if ns := object.GetNamespace(); ns != "" {
		return ns + "/" + object.GetName()
	}
	return object.GetName()
}

// apply applies one object and tells what that changed, by its content: a server-side apply
// answers the same way in all cases.
func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) (Action, error) {
	if a.absent {
		return Created, nil
	}
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(object.GroupVersionKind())
	err := a.client.Get(ctx, client.ObjectKeyFromObject(object), before)
	if err != nil && !notThere(err) {
		return "", err
	}
	exists := err == nil
	options := []client.ApplyOption{fieldOwner, client.ForceOwnership}
	if a.opts.DryRun {
		options = append(options, client.DryRunAll)
	}
	after := object.DeepCopy()
	err = a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(after), options...)
	switch {
	case a.opts.DryRun && !exists && notThere(err):
		return Created, nil // its kind or its namespace would have been created before it
	case err != nil:
		return "", err
	case !exists:
		return Created, nil
	case equality.Semantic.DeepEqual(content(before), content(after)):
		return Unchanged, nil
	default:
		return Updated, nil
	}
}

// content is an object without what changes by being written.
func content(object *unstructured.Unstructured) map[string]any {
	c := object.DeepCopy()
	c.SetManagedFields(nil)
	c.SetResourceVersion("")
	c.SetGeneration(0)
	return c.Object
}

// established waits until CRDs are served.
func (a *applier) established(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		if err := a.wait(ctx, crd, isEstablished); err != nil {
			return fmt.Errorf("waiting for CustomResourceDefinition %s to be served: %w", crd.GetName(), err)
		}
	}
	return nil
}

func isEstablished(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// wait watches one object until it is as wanted, and copies it into object.
func (a *applier) wait(ctx context.Context, object *unstructured.Unstructured, wanted func(*unstructured.Unstructured) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.Timeout, fmt.Errorf("not within %s", a.opts.Timeout))
	defer cancel()
	gvk := object.GroupVersionKind()
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind + "List"})
		w, err := a.client.Watch(ctx, list, client.InNamespace(object.GetNamespace()),
			client.MatchingFields{"metadata.name": object.GetName()})
		if err != nil {
			return cause(ctx, err)
		}
		seen := await(ctx, w, wanted)
		w.Stop()
		if seen != nil {
			object.Object = seen.Object
			return nil
		}
		if ctx.Err() != nil {
			return cause(ctx, ctx.Err())
		}
	}
}

// await returns the first wanted object of a watch, or nil when the watch or the context ends.
func await(ctx context.Context, w watch.Interface, wanted func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.ResultChan():
			if !ok {
				return nil
			}
			object, isObject := event.Object.(*unstructured.Unstructured)
			if isObject && (event.Type == watch.Added || event.Type == watch.Modified) && wanted(object) {
				return object
			}
		}
	}
}

// cause prefers the reason for which a context ended.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// isNoKind tells whether the server does not know the kind.
func isNoKind(err error) bool {
	var failed *discovery.ErrGroupDiscoveryFailed
	return meta.IsNoMatchError(err) || errors.As(err, &failed) || apierrors.IsMethodNotSupported(err)
}
