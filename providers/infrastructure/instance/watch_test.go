// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/util/workqueue"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestASourceThatEndsTakesItsHandlerBack(t *testing.T) {
	objects := fcache.NewFakeControllerSource()
	informer := toolscache.NewSharedIndexInformer(objects, &corev1.Namespace{}, 0, toolscache.Indexers{})
	running, stopInformer := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { informer.RunWithContext(running); close(ended) }()
	defer func() { stopInformer(); <-ended }()
	if !toolscache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer did not start")
	}

	before := goleak.IgnoreCurrent()
	order := newLanes()
	q := order.newQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[request](time.Millisecond, time.Second))
	ctx, stop := context.WithCancel(t.Context())
	if err := watch(informer, order, requestForOwner("thing"), always).Start(ctx, q); err != nil {
		t.Fatal(err)
	}
	objects.Add(placementOf(1))
	if req, _ := q.Get(); req != testRequest {
		t.Errorf("the event asks for %v", req)
	}
	stop()
	q.ShutDown()
	goleak.VerifyNone(t, before)
}

func TestAnObjectAsksForTheInstanceItIsPartOf(t *testing.T) {
	owned := func(change func(*corev1.Namespace)) metav1.Object {
		ns := buildNamespace(newScope())
		change(ns)
		return ns
	}
	tenants := newInstance()
	for name, test := range map[string]struct {
		obj  metav1.Object
		by   func(metav1.Object) (request, bool)
		want bool
	}{
		"a placement":                     {obj: owned(func(*corev1.Namespace) {}), by: requestForOwner("thing"), want: true},
		"another Template's placement":    {obj: owned(func(*corev1.Namespace) {}), by: requestForOwner("other")},
		"a placement without its cluster": {obj: owned(func(ns *corev1.Namespace) { delete(ns.Labels, placement.LabelCluster) }), by: requestForOwner("thing")},
		"something unlabelled":            {obj: &corev1.Namespace{}, by: requestForOwner("")},
		"a tenant's object":               {obj: tenants, by: requestForTenant, want: true},
		"an object of no cluster":         {obj: &unstructured.Unstructured{Object: map[string]any{}}, by: requestForTenant},
	} {
		req, ok := test.by(test.obj)
		if ok != test.want || (ok && req != testRequest) {
			t.Errorf("%s: %v, %v", name, req, ok)
		}
	}
}
