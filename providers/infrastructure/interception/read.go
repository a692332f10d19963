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
)

// errWithdrawn means that an operator has taken back the right to proxies in a namespace, where grant has restored the Services.
var errWithdrawn = errors.New("the right to proxies in the namespace is withdrawn")

// view reads all that matters of one Service.
func (r *reconciler) view(ctx context.Context, name types.NamespacedName) (*intercept.View, error) {
	v := &intercept.View{Name: name}
	routes, documents := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	service, behind := &corev1.Service{}, &corev1.Service{}
	deployment, budget := &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}
	found := map[client.Object]bool{}
	for _, one := range []struct {
		object client.Object
		name   string
	}{
		{routes, intercept.RoutesConfigMap},
		{documents, wire.ConfigMap},
		{service, name.Name},
		{behind, intercept.BaselineName(name.Name)},
		{deployment, intercept.ProxyName(name.Name)},
		{budget, intercept.ProxyName(name.Name)},
	} {
		err := r.reader.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: one.name}, one.object)
		if apierrors.IsForbidden(err) && !found[routes] {
			return nil, errWithdrawn
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading %s/%s: %w", name.Namespace, one.name, err)
		}
		found[one.object] = err == nil
	}
	v.Service, v.Behind = orNil(service, found[service]), orNil(behind, found[behind])
	v.Deployment, v.Budget = orNil(deployment, found[deployment]), orNil(budget, found[budget])
	v.Document, v.Forgetful = documents.Data[wire.Key(name.Name)], !found[routes]
	if here := intercept.ReadRoutes(routes.Data)[name.Name]; here != nil {
		v.Routes = *here
	}
	if err := r.leaveGone(ctx, v); err != nil {
		return nil, err
	}
	if err := r.readPods(ctx, v); err != nil {
		return nil, err
	}
	image, err := r.image(ctx)
	if err != nil {
		return nil, err
	}
	v.Image = image
	return v, nil
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
