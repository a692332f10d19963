// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/route"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

const (
	// finalizer has the deletion of a SandboxRoute wait until no Gateway leads requests by it.
	finalizer = "sandbar.dev/route"
	// lookAgain is how soon a route is looked at again for what no event tells of: a Service or a Gateway that is not there
	// yet, a quota that has room.
	lookAgain = 10 * time.Second
	// changedAgain is when to look again at a route that somebody has changed meanwhile.
	changedAgain = 100 * time.Millisecond
)

// objects reads and writes SandboxRoutes; *export.Objects does it in kcp.
type objects interface {
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
}

// groups tell where copies are; *instance.Groups does.
type groups interface {
	Place(ctx context.Context, group export.Key) (*instance.GroupPlace, error)
}

// runtimeCluster reads and writes what leads requests to copies; cluster does.
type runtimeCluster interface {
	routesOf(ctx context.Context, uid types.UID) ([]unstructured.Unstructured, error)
	apply(ctx context.Context, wanted *unstructured.Unstructured, own bool) (*unstructured.Unstructured, error)
	remove(ctx context.Context, namespace, name string, uid types.UID) error
	service(ctx context.Context, namespace, name string) (*corev1.Service, error)
	gateway(ctx context.Context, namespace, name string) (*gateway, error)
}

// reconciler makes the HTTPRoutes of SandboxRoutes. What it did is what there is; it keeps nothing but who names what.
type reconciler struct {
	objects objects
	groups  groups
	runtime runtimeCluster
	// others are the HTTPRoutes that there are, among them those of others.
	others func() ([]*seen, follow.Knowledge)
	// named are the groups that routes name.
	named export.References
	// proxies are asked to lead requests by those with provider proxy.
	proxies proxies
	// changed is told of each route whose status has changed, or that may go: the watch shows the one not, and may miss the other.
	changed func(export.Key)
	events  eventWriter
	counts  counts
	now     func() time.Time
}

// Reconcile looks at one SandboxRoute.
func (r *reconciler) Reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	result, err := r.reconcile(ctx, key)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: changedAgain}, nil
	}
	return result, err
}

func (r *reconciler) reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	read, err := r.objects.Live(ctx, key)
	if export.IsGone(err) {
		r.named.Drop(key)
		r.counts.drop(key)
		return reconcile.Result{}, r.removeLeft(ctx, key)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading SandboxRoute %s: %w", key.Name, err)
	}
	obj := &sandbarv1alpha1.SandboxRoute{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(read.Object, obj); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading SandboxRoute %s: %w", key.Name, err)
	}
	switch has := slices.Contains(obj.Finalizers, finalizer); {
	case obj.DeletionTimestamp != nil && !has:
		return reconcile.Result{}, nil
	case obj.DeletionTimestamp != nil:
		return r.finalize(ctx, key, obj)
	case !has:
		// Before anything is made: what is made must not outlast the route unseen. Its event brings the next look.
		return reconcile.Result{}, r.writeFinalizers(ctx, key, obj, append(slices.Clone(obj.Finalizers), finalizer))
	}
	if obj.Spec.Provider == sandbarv1alpha1.RouteByProxy {
		return r.convergeProxies(ctx, key, obj)
	}
	return r.converge(ctx, key, obj)
}

// converge has the Gateways lead requests as the route says, and reports whether they do.
func (r *reconciler) converge(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute) (reconcile.Result, error) {
	r.noteGroup(key, obj)
	found := finding{}
	wanted, err := r.wanted(ctx, key, obj, &found)
	if found.refused, err = refusedOf(err); err != nil {
		return reconcile.Result{}, err
	}
	if found.refused != nil {
		wanted = nil // what was led before is so no more: what is refused may be the tenant's right to it
	}
	if found.applied, err = r.attach(ctx, obj, wanted); err != nil {
		if found.refused, err = refusedOf(unattached(err)); err != nil {
			return reconcile.Result{}, err
		}
	}
	found.shadows, err = r.shadows(obj, found.applied)
	if found.incomplete = errors.Is(err, route.ErrIncomplete); err != nil && !found.incomplete {
		return reconcile.Result{}, err
	}
	again, err := r.report(ctx, key, obj, statusFor(obj, &found))
	return reconcile.Result{RequeueAfter: again}, err
}

// shadows are the rules of which other HTTPRoutes take requests. While these are not known, nothing is said of them.
func (r *reconciler) shadows(obj *sandbarv1alpha1.SandboxRoute, applied []*unstructured.Unstructured) ([]route.Shadow, error) {
	all, _ := r.others()
	if len(applied) == 0 || len(all) == 0 {
		return nil, nil
	}
	others := make([]*route.Parsed, 0, len(all))
	for _, one := range all {
		if one.takes != nil {
			others = append(others, one.takes)
		}
	}
	return route.Shadowed(&obj.Spec, applied, others)
}

// noteGroup notes which group the route names, so that a change of that one has the route looked at.
func (r *reconciler) noteGroup(key export.Key, obj *sandbarv1alpha1.SandboxRoute) {
	if obj.Spec.SandboxGroupRef == nil {
		r.named.Drop(key)
		return
	}
	r.named.Set(key, groupOf(key, obj.Spec.SandboxGroupRef.Name))
}

func groupOf(key export.Key, name string) export.Key {
	return export.Key{Cluster: key.Cluster, NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: name}}
}

// attach makes the HTTPRoutes of a SandboxRoute those that are wanted, and returns these as they are. Those that are too many go
// first: two that lead the same requests elsewhere would be at odds.
func (r *reconciler) attach(ctx context.Context, obj *sandbarv1alpha1.SandboxRoute, wanted []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	there, err := r.runtime.routesOf(ctx, obj.UID)
	if err != nil {
		return nil, err
	}
	ours := map[types.NamespacedName]*unstructured.Unstructured{}
	for i := range there {
		at := nameOf(&there[i])
		if slices.ContainsFunc(wanted, func(w *unstructured.Unstructured) bool { return nameOf(w) == at }) {
			ours[at] = &there[i]
			continue
		}
		if err := r.runtime.remove(ctx, at.Namespace, at.Name, there[i].GetUID()); err != nil {
			return nil, err
		}
	}
	var applied []*unstructured.Unstructured
	for _, one := range wanted {
		is := ours[nameOf(one)]
		if is == nil || !isAs(is, one) {
			if is, err = r.runtime.apply(ctx, one, is != nil); err != nil {
				return applied, err
			}
		}
		applied = append(applied, is)
	}
	return applied, nil
}

// isAs reports whether an HTTPRoute is as it is to be. A wanted one has all fields that the API server would fill in.
func isAs(is, wanted *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(is.Object["spec"], wanted.Object["spec"]) &&
		has(is.GetLabels(), wanted.GetLabels()) && has(is.GetAnnotations(), wanted.GetAnnotations())
}

func has(all, some map[string]string) bool {
	for name, value := range some {
		if is, there := all[name]; !there || is != value {
			return false
		}
	}
	return true
}

func nameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// unattached is why an HTTPRoute was not written, if a retry alone does not mend it.
func unattached(err error) error {
	if errors.Is(err, errNotOurs) {
		return refuse(sandbarv1alpha1.RouteOwnershipConflict, "%v: give this SandboxRoute another name", err)
	}
	if why := outcome.WhyRefused(err); apierrors.IsForbidden(err) && outcome.ExceedsQuota(why) {
		return refuse(sandbarv1alpha1.RouteAttachFailed, "the quota of the group's placement has no room for another HTTPRoute: %s; have fewer rules, or fewer SandboxRoutes for the group", outcome.Detail(why))
	}
	return err
}

// finalize ends what a SandboxRoute has led, and lets it go: once no proxy has its rules, and a Service that no other one
// asks proxies for has its own pods.
func (r *reconciler) finalize(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute) (reconcile.Result, error) {
	if _, err := r.attach(ctx, obj, nil); err != nil {
		return reconcile.Result{}, err
	}
	waits, err := r.leaveAll(ctx, key, r.proxies.Of)
	if err == nil && !waits {
		// The route cannot come back to it: what it asked a moment ago may not be seen yet.
		waits, err = r.leaveAll(ctx, key, r.proxies.OfLive)
	}
	if err != nil || waits {
		return reconcile.Result{RequeueAfter: lookAgain}, err
	}
	r.named.Drop(key)
	r.counts.drop(key)
	defer r.changed(key)
	return reconcile.Result{}, r.writeFinalizers(ctx, key, obj, slices.DeleteFunc(slices.Clone(obj.Finalizers), func(name string) bool { return name == finalizer }))
}

// removeLeft removes what a SandboxRoute has left that went without its finalizer's leave, with its workspace for example.
func (r *reconciler) removeLeft(ctx context.Context, key export.Key) error {
	all, _ := r.others()
	for _, one := range all {
		if one.of != key {
			continue
		}
		if err := r.runtime.remove(ctx, one.Namespace, one.Name, one.UID); err != nil {
			return err
		}
	}
	_, err := r.leaveAll(ctx, key, r.proxies.Of)
	return err
}

// writeFinalizers writes the finalizers under the version that was read, since a merge patch replaces the whole list.
func (r *reconciler) writeFinalizers(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute, finalizers []string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": obj.ResourceVersion, "finalizers": finalizers}})
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data)
	}
	if err != nil && !export.IsGone(err) {
		return fmt.Errorf("writing the finalizers of SandboxRoute %s: %w", key.Name, err)
	}
	return nil
}

// report writes the status, if it is another one, and returns when to look again.
func (r *reconciler) report(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute, status *sandbarv1alpha1.SandboxRouteStatus) (again time.Duration, err error) {
	attached := attachedOf(status)
	r.counts.note(key, attached.Reason)
	switch attached.Reason {
	case sandbarv1alpha1.RouteResolveFailed, sandbarv1alpha1.RouteOwnershipConflict, sandbarv1alpha1.RouteAttachFailed:
		again = lookAgain
	case sandbarv1alpha1.RouteInvalidSpec, sandbarv1alpha1.RouteProviderUnavailable, sandbarv1alpha1.RouteNotAllowed:
		if obj.Spec.Provider == sandbarv1alpha1.RouteByProxy {
			again = lookAgain // it may be about the Service, or about rights, which nothing tells of
		}
	}
	if equality.Semantic.DeepEqual(*status, obj.Status) {
		return again, nil
	}
	data, err := export.StatusPatch(obj.Status, status)
	if err == nil {
		_, err = r.objects.Patch(ctx, key, data, "status")
	}
	if err != nil && !export.IsGone(err) {
		return 0, fmt.Errorf("writing the status of SandboxRoute %s: %w", key.Name, err)
	}
	r.changed(key)
	r.tell(ctx, key, obj, status)
	return again, nil
}
