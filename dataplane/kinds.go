// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// kindGrace is how long a kind may hold back readiness while its instances are first listed. A
// Template whose CRD is broken must not keep the whole data plane from becoming ready.
const kindGrace = 15 * time.Second

var templatesResource = sandbarv1alpha1.GroupVersion.WithResource("templates")

// kind is a kind of instance that an exported Template defines. It does not change; a changed
// Template makes another.
type kind struct {
	template  *sandbarv1alpha1.Template
	resource  schema.GroupVersionResource
	verbs     []string // as in status.dataPlane.verbs
	instances *instances
}

// dataPlane is the kind's contract.
func (k *kind) dataPlane() *sandbarv1alpha1.DataPlane { return &k.template.Spec.DataPlane }

// declares tells whether the kind has the verb of a route.
func (k *kind) declares(r route) bool {
	if k == nil {
		return false
	}
	if r.verb == contract.ProxyURLVerb {
		return k.previews(r)
	}
	if r.verb == contract.RenewVerb {
		return r.component == "" && r.port == ""
	}
	_, ok := k.endpoint(r)
	return ok
}

// endpoint finds the endpoint of a route. A port in the path makes it another unless it leads to
// whatever port is named.
func (k *kind) endpoint(r route) (sandbarv1alpha1.Endpoint, bool) {
	if k == nil {
		return sandbarv1alpha1.Endpoint{}, false
	}
	e, ok := contract.Find(k.dataPlane(), r.component, r.verb)
	return e, ok && (r.port == "" || contract.AnyPort(&e))
}

// previews tells whether an instance of the kind, or what the route names of it, can be seen in a
// browser.
func (k *kind) previews(r route) bool {
	if k == nil {
		return false
	}
	e, ok := contract.Preview(k.dataPlane(), r.component)
	return ok && (r.port == "" || contract.AnyPort(&e))
}

// instances are the runtime instances of one kind, kept by an informer of their own that lives
// as long as the kind does.
type instances struct {
	informer cache.SharedIndexInformer
	started  time.Time
	stop     context.CancelFunc
}

// get returns the runtime instance in a namespace; nil if there is none.
func (i *instances) get(namespace, name string) *unstructured.Unstructured {
	obj, found, err := i.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !found {
		return nil
	}
	u, _ := obj.(*unstructured.Unstructured)
	return u
}

// kinds follows the Templates of the provider workspace: what is exported can be reached.
// Reading needs no lock: a change makes a new index.
type kinds struct {
	templates cache.SharedIndexInformer
	runtime   dynamic.Interface
	log       *slog.Logger
	// watchers are told of the instances of all kinds; set them before run.
	watchers []cache.ResourceEventHandler
	index    atomic.Pointer[map[schema.GroupResource]*kind]
	handled  atomic.Pointer[cache.ResourceEventHandlerRegistration]

	// mu guards what follows; it is held while Templates are compared with what runs.
	mu      sync.Mutex
	running map[schema.GroupVersionResource]*instances
	wg      sync.WaitGroup
}

func newKinds(provider, runtimeCluster dynamic.Interface, log *slog.Logger) (*kinds, error) {
	k := &kinds{runtime: runtimeCluster, log: log, running: map[schema.GroupVersionResource]*instances{}}
	k.index.Store(&map[schema.GroupResource]*kind{})
	k.templates = dynamicinformer.NewFilteredDynamicInformer(provider, templatesResource, "", 0, cache.Indexers{}, nil).Informer()
	if err := k.templates.SetTransform(decodeTemplate); err != nil {
		return nil, fmt.Errorf("watching Templates: %w", err)
	}
	return k, nil
}

// run follows the Templates until ctx ends; it returns when no goroutine of it is left.
func (k *kinds) run(ctx context.Context) error {
	changed := func(any) { k.rebuild(ctx) }
	handled, err := k.templates.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, _ any) { k.rebuild(ctx) }, DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watching Templates: %w", err)
	}
	k.handled.Store(&handled)
	k.templates.RunWithContext(ctx)
	k.wg.Wait()
	return nil
}

// ready tells whether Templates and the instances of their kinds are known, or at least a kind
// that is not has had its time.
func (k *kinds) ready() bool {
	if !k.indexed() {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, i := range k.running {
		if !i.informer.HasSynced() && time.Since(i.started) < kindGrace {
			return false
		}
	}
	return true
}

// indexed tells whether the Templates that there were at the start can be found. That they have
// been listed is not enough: the index is made a moment later.
func (k *kinds) indexed() bool {
	handled := k.handled.Load()
	return handled != nil && (*handled).HasSynced()
}

// find returns the kind of a route; nil if no Template defines it.
func (k *kinds) find(r route) *kind {
	found := (*k.index.Load())[schema.GroupResource{Group: r.group, Resource: r.resource}]
	if found == nil || found.resource.Version != r.version {
		return nil
	}
	return found
}

// all returns the kinds, sorted by the name of their Template.
func (k *kinds) all() []*kind {
	var list []*kind
	for _, found := range *k.index.Load() {
		list = append(list, found)
	}
	slices.SortFunc(list, func(a, b *kind) int { return cmp.Compare(a.template.Name, b.template.Name) })
	return list
}

// rebuild makes the index anew and starts and stops informers to match. Templates are few and
// change rarely.
func (k *kinds) rebuild(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	index := map[schema.GroupResource]*kind{}
	wanted := map[schema.GroupVersionResource]bool{}
	for _, t := range k.exported() {
		gvr := schema.GroupVersionResource{Group: t.Status.Group, Version: t.Status.Version, Resource: t.Status.Resource}
		if index[gvr.GroupResource()] != nil {
			continue // the older Template has the name
		}
		wanted[gvr] = true
		index[gvr.GroupResource()] = &kind{
			template: t, resource: gvr, verbs: contract.Verbs(&t.Spec.DataPlane), instances: k.start(ctx, gvr),
		}
	}
	k.index.Store(&index)
	for gvr, i := range k.running {
		if !wanted[gvr] {
			i.stop()
			delete(k.running, gvr)
			k.log.Info("kind is no longer served", "resource", gvr.GroupResource().String())
		}
	}
}

// exported lists the Templates that tenants can use, oldest first.
func (k *kinds) exported() []*sandbarv1alpha1.Template {
	var list []*sandbarv1alpha1.Template
	for _, obj := range k.templates.GetStore().List() {
		t, ok := obj.(*sandbarv1alpha1.Template)
		if ok && t.Status.Resource != "" && meta.IsStatusConditionTrue(t.Status.Conditions, sandbarv1alpha1.TemplateExported) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *sandbarv1alpha1.Template) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// start returns the informer of a kind, and starts it if there is none. k.mu is held.
func (k *kinds) start(ctx context.Context, gvr schema.GroupVersionResource) *instances {
	if running, ok := k.running[gvr]; ok {
		return running
	}
	ctx, stop := context.WithCancel(ctx)
	informer := dynamicinformer.NewFilteredDynamicInformer(k.runtime, gvr, metav1.NamespaceAll, 0, cache.Indexers{}, placed).Informer()
	// The only error of SetTransform is that the informer runs already.
	_ = informer.SetTransform(stripInstance)
	for _, watcher := range k.watchers {
		_, _ = informer.AddEventHandler(watcher)
	}
	i := &instances{informer: informer, started: time.Now(), stop: stop}
	k.running[gvr] = i
	k.wg.Go(func() { informer.RunWithContext(ctx) })
	k.log.Info("kind is served", "resource", gvr.GroupResource().String())
	return i
}

// placed restricts an informer to what belongs to a placement.
func placed(o *metav1.ListOptions) { o.LabelSelector = placement.LabelInstanceUID }

// decodeTemplate keeps Templates typed, with the verbs of their development contracts, and
// without their graphs, which may be large and which the data plane must never show.
func decodeTemplate(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil // a tombstone, or decoded before
	}
	unstructured.RemoveNestedField(u.Object, "spec", "graph")
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	t := &sandbarv1alpha1.Template{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, t); err != nil {
		return nil, fmt.Errorf("decoding a Template: %w", err)
	}
	t.Spec.DataPlane = *contract.Complete(&t.Spec)
	return t, nil
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
