// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// errWithdrawn means that an operator has taken back the right to proxies in a namespace, where grant has restored the Services.
var errWithdrawn = errors.New("the right to proxies in the namespace is withdrawn")

// view reads what intercept.Urgent needs of one Service. The error is errWithdrawn where any of it may not be read, and where the right is
// that of another provider.
func (r *reconciler) view(ctx context.Context, name types.NamespacedName) (*intercept.View, error) {
	v, err := r.read(ctx, name)
	if apierrors.IsForbidden(err) {
		return nil, errWithdrawn
	}
	return v, err
}

func (r *reconciler) read(ctx context.Context, name types.NamespacedName) (*intercept.View, error) {
	v := &intercept.View{Name: name}
	routes, service, behind, deployment := &corev1.ConfigMap{}, &corev1.Service{}, &corev1.Service{}, &appsv1.Deployment{}
	hasRoutes, err := r.get(ctx, name.Namespace, intercept.RoutesConfigMap, routes)
	if err != nil {
		return nil, err
	}
	if !r.watch.isGranted(routes) {
		if isGrantedBy("", routes) && routes.Annotations[placement.AnnotationProvider] != "" {
			return nil, errWithdrawn // another provider's
		}
		hasRoutes, routes.Data = false, nil // what it says is not believed: nothing asks for proxies
	}
	hasService, err := r.get(ctx, name.Namespace, name.Name, service)
	if err != nil {
		return nil, err
	}
	hasBehind, err := r.get(ctx, name.Namespace, intercept.BaselineName(name.Name), behind)
	if err != nil {
		return nil, err
	}
	hasDeployment, err := r.get(ctx, name.Namespace, intercept.ProxyName(name.Name), deployment)
	if err != nil {
		return nil, err
	}
	v.Service, v.Behind, v.Deployment = orNil(service, hasService), orNil(behind, hasBehind), orNil(deployment, hasDeployment)
	v.Forgetful = !hasRoutes
	if here := intercept.ReadRoutes(routes.Data)[name.Name]; here != nil {
		v.Routes = *here
	}
	return v, nil
}

// get reads an object; found is false if there is none.
func (r *reconciler) get(ctx context.Context, namespace, name string, object client.Object) (found bool, err error) {
	err = r.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s/%s: %w", namespace, name, err)
	}
	return true, nil
}

// complete reads all else that matters of a Service. What fails here keeps no Service from its own pods.
func (r *reconciler) complete(ctx context.Context, v *intercept.View) error {
	documents, budget := &corev1.ConfigMap{}, &policyv1.PodDisruptionBudget{}
	if _, err := r.get(ctx, v.Name.Namespace, wire.ConfigMap, documents); err != nil {
		return err
	}
	hasBudget, err := r.get(ctx, v.Name.Namespace, intercept.ProxyName(v.Name.Name), budget)
	if err != nil {
		return err
	}
	v.Document, v.Budget = documents.Data[wire.Key(v.Name.Name)], orNil(budget, hasBudget)
	if err := r.leaveGone(ctx, v); err != nil {
		return err
	}
	if err := r.readPods(ctx, v); err != nil {
		return err
	}
	if !v.IsWanted() {
		return nil // the image is of no concern
	}
	v.Image, err = r.image(ctx)
	return err
}

// leaveGone has those routes ask for nothing whose copies are gone, with a workspace that was deleted for example. Only the API server's
// own word counts for it.
func (r *reconciler) leaveGone(ctx context.Context, v *intercept.View) error {
	for _, intent := range v.Routes.Intents {
		if intent.Leaving || intent.Placement == "" {
			continue
		}
		err := r.cache.Get(ctx, types.NamespacedName{Name: intent.Placement}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			err = r.reader.Get(ctx, types.NamespacedName{Name: intent.Placement}, &corev1.Namespace{})
		}
		switch {
		case apierrors.IsNotFound(err):
			intent.Leaving = true
		case err != nil:
			return fmt.Errorf("looking for the copies in %s: %w", intent.Placement, err)
		}
	}
	return nil
}

func orNil[T any](object *T, found bool) *T {
	if !found {
		return nil
	}
	return object
}

// readPods reads the pods of the proxies, and the endpoints of the Service and of the one behind.
func (r *reconciler) readPods(ctx context.Context, v *intercept.View) error {
	pods := &corev1.PodList{}
	if err := r.reader.List(ctx, pods, client.InNamespace(v.Name.Namespace), client.MatchingLabels(intercept.Selector(v.Name.Name))); err != nil {
		return fmt.Errorf("listing the proxies of Service %s: %w", v.Name, err)
	}
	proxies := map[string]bool{}
	for i := range pods.Items {
		proxies[pods.Items[i].Name] = true
	}
	v.ProxyRuns = len(proxies) > 0
	ready := func(service string) (own, ours int, err error) {
		slices := &discoveryv1.EndpointSliceList{}
		if err := r.reader.List(ctx, slices, client.InNamespace(v.Name.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			return 0, 0, fmt.Errorf("listing the endpoints of Service %s: %w", service, err)
		}
		for i := range slices.Items {
			for _, endpoint := range slices.Items[i].Endpoints {
				switch {
				case endpoint.TargetRef != nil && proxies[endpoint.TargetRef.Name]:
					ours++
				case endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready: // nil counts as ready
					own++
				}
			}
		}
		return own, ours, nil
	}
	own, ours, err := ready(v.Name.Name)
	if err != nil {
		return err
	}
	v.OwnReady, v.ProxyServes = own, ours > 0
	v.BehindReady, _, err = ready(intercept.BaselineName(v.Name.Name))
	return err
}
