// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/pkg/relist"
)

const (
	// schemaSettles is when the instances of a kind whose schema has changed are listed a second time.
	// Several API servers learn of it one after the other; Kubernetes itself allows five seconds for
	// that (apiextensions-apiserver, EstablishingController).
	schemaSettles = 10 * time.Second

	// liveFor is how long a live answer about an instance serves further requests, liveKept how many of
	// them are kept, and liveTimeout how long one may take.
	liveFor     = time.Second
	liveKept    = 1024
	liveTimeout = 5 * time.Second
)

// Instances are the runtime instances of one kind, kept by an informer of their own that lives as long
// as the kind does. A change of the kind's schema has it list all of them again: what it holds was
// decoded under the former one.
type Instances struct {
	informer cache.SharedIndexInformer
	source   *relist.ListerWatcher
	client   dynamic.NamespaceableResourceInterface
	started  time.Time
	stop     context.CancelFunc

	// schema is the one that is followed; only kinds.rebuild uses it.
	schema string
	// distrusted is when a copy was last found to be wrong, in nanoseconds since 1970.
	distrusted atomic.Int64

	asking  singleflight.Group
	answers *lru.Cache[string, liveAnswer]
}

// liveAnswer is what the API server said of a runtime instance, and when.
type liveAnswer struct {
	instance *unstructured.Unstructured
	at       time.Time
}

func newInstances(client dynamic.Interface, gvr schema.GroupVersionResource, stop context.CancelFunc) *Instances {
	answers, _ := lru.New[string, liveAnswer](liveKept) // fails only for a size below one
	i := &Instances{client: client.Resource(gvr), started: time.Now(), stop: stop, answers: answers}
	i.informer, i.source = relist.NewInformer(client, gvr, Placed)
	// The only error of SetTransform is that the informer runs already.
	_ = i.informer.SetTransform(stripInstance)
	return i
}

// follow notes the schema under which the runtime cluster serves the kind, and has the instances listed
// again when it is another.
func (i *Instances) follow(schema string) {
	if i.schema == schema {
		return
	}
	changed := i.schema != ""
	i.schema = schema
	if !changed {
		return
	}
	i.source.Renew()
	time.AfterFunc(schemaSettles, i.source.Renew)
}

// Distrust has the instances listed again, because one was found to be another than its copy. It does
// so at most once per schemaSettles: a list holds them all.
func (i *Instances) Distrust(now time.Time) {
	last := i.distrusted.Load()
	if now.UnixNano()-last >= int64(schemaSettles) && i.distrusted.CompareAndSwap(last, now.UnixNano()) {
		i.source.Renew()
	}
}

// Get returns the runtime instance in a namespace; nil if there is none.
func (i *Instances) Get(namespace, name string) *unstructured.Unstructured {
	obj, found, err := i.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	u, _ := obj.(*unstructured.Unstructured)
	return u
}

// Live asks the API server for the runtime instance: for a request that the informer's copy does not
// lead anywhere although kro has made all of the instance. Many such requests make one question.
func (i *Instances) Live(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	key := namespace + "/" + name
	if known, ok := i.answers.Get(key); ok && time.Since(known.at) < liveFor {
		return known.instance, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
	defer cancel()
	answer, err, _ := i.asking.Do(key, func() (any, error) {
		obj, err := i.client.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the runtime instance: %w", err)
		}
		_, _ = stripInstance(obj) // fails for no unstructured object
		i.answers.Add(key, liveAnswer{obj, time.Now()})
		return obj, nil
	})
	if err != nil {
		return nil, err
	}
	return answer.(*unstructured.Unstructured), nil
}

// stripInstance keeps of a runtime instance what routing reads: metadata, status, and of the spec
// what Sandbar itself gives a meaning.
func stripInstance(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	spec, _ := u.Object["spec"].(map[string]any)
	kept := map[string]any{}
	for _, name := range []string{"mode", "suspended"} {
		if value, ok := spec[name]; ok {
			kept[name] = value
		}
	}
	u.Object["spec"] = kept
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(u.Object, "status", "conditions")
	return u, nil
}
