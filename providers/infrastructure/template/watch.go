// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"time"

	krometadata "github.com/kubernetes-sigs/kro/pkg/metadata"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// countDelay is how long placements that come and go are gathered before they are counted: a
// hundred creations make one write of status.instances and not a hundred.
const countDelay = time.Second

func request(name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// byGraph wakes the Template whose graph it is: also one whose name somebody else's graph has.
func (r *reconciler) byGraph(_ context.Context, obj client.Object) []reconcile.Request {
	return request(r.names.TemplateNamed(obj.GetName()))
}

// byLabel wakes the Template that the object is labelled with.
func byLabel(_ context.Context, obj client.Object) []reconcile.Request {
	return request(obj.GetLabels()[placement.LabelTemplate])
}

// byCRD wakes the Template whose graph made the CRD.
func (r *reconciler) byCRD(_ context.Context, obj client.Object) []reconcile.Request {
	return request(r.names.TemplateNamed(obj.GetLabels()[krometadata.ResourceGraphDefinitionNameLabel]))
}

// all wakes every Template.
func (r *reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.others(ctx, func(*sandbarv1alpha1.Template) bool { return true })
}

// rivals wakes the other Templates of the same kind: when the one that has it goes or takes
// another, the next in line gets it.
func (r *reconciler) rivals(ctx context.Context, obj client.Object) []reconcile.Request {
	tmpl, ok := obj.(*sandbarv1alpha1.Template)
	if !ok {
		return nil
	}
	resource := resourceOf(tmpl)
	return r.others(ctx, func(other *sandbarv1alpha1.Template) bool {
		return other.Name != tmpl.Name && (resourceOf(other) == resource || resourceOf(other) == tmpl.Status.Resource)
	})
}

func (r *reconciler) others(ctx context.Context, wanted func(*sandbarv1alpha1.Template) bool) []reconcile.Request {
	var list sandbarv1alpha1.TemplateList
	// The cache answers; it fails only while the process ends.
	if err := r.kcp.List(ctx, &list); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, request(list.Items[i].Name)...)
		}
	}
	return requests
}

// byPlatform wakes every Template for the platform's values, and for those of a revision, which Templates
// with the same resources share: one that is deleted is made again by a Template that has the revision.
func (r *reconciler) byPlatform(ctx context.Context, obj client.Object) []reconcile.Request {
	if obj.GetName() == placement.PlatformConfigMap || obj.GetLabels()[placement.LabelRevision] != "" {
		return r.all(ctx, obj)
	}
	return nil
}

// gathered wakes a Template at most once per countDelay: instances are updated faster than anybody
// wants to read of it.
func gathered() handler.TypedEventHandler[*sandbarv1alpha1.Template, reconcile.Request] {
	return handler.TypedFuncs[*sandbarv1alpha1.Template, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[*sandbarv1alpha1.Template], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, req := range request(e.Object.Name) {
				q.AddAfter(req, countDelay)
			}
		},
	}
}

// coalesced wakes for objects that come and go, not for those that change, and at most once
// per countDelay.
func coalesced(to handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, req := range to(ctx, obj) {
			q.AddAfter(req, countDelay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
	}
}
