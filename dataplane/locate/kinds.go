// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/relist"
)

// kindGrace is how long a kind may hold back readiness while its instances are first listed. A
// Template whose CRD is broken must not keep the whole data plane from becoming ready.
const kindGrace = 15 * time.Second

// SchemaInterval is how often Templates and the InfrastructureProvider are listed again. Their own
// schemas change with a release of Sandbar, and what was read under the former one lacks its fields.
const SchemaInterval = 5 * time.Minute

var templatesResource = sandbarv1alpha1.GroupVersion.WithResource("templates")

// Kind is a kind of instance that an exported Template defines. It does not change; a changed
// Template makes another.
type Kind struct {
	Template  *sandbarv1alpha1.Template
	Resource  schema.GroupVersionResource
	Verbs     []string // as in status.dataPlane.verbs
	Instances *Instances
	// Part is the kind of what compound instances of this one are made of (Template.spec.compound); nil for none.
	Part *Kind
	// hosts are what the placements of each Template with copies have of DevSessions, by the Template's name; nil for all other
	// kinds.
	hosts map[string]*Kind
}

// Provider is the logical cluster of the provider workspace; empty while no kind is known.
func (k *Kinds) Provider() string {
	for _, kind := range *k.index.Load() {
		return kind.Provider()
	}
	return ""
}

// Provider is the logical cluster of the provider whose kind it is.
func (k *Kind) Provider() string { return logicalcluster.From(k.Template).String() }

// DataPlane is the kind's contract.
func (k *Kind) DataPlane() *sandbarv1alpha1.DataPlane { return &k.Template.Spec.DataPlane }

// Declares tells whether the kind has the verb of a route.
func (k *Kind) Declares(r Route) bool {
	if k == nil {
		return false
	}
	if r.Verb == contract.ProxyURLVerb {
		return k.Previews(r)
	}
	if r.Verb == contract.RenewVerb {
		return r.Component == "" && r.Port == "" && k.hosts == nil
	}
	_, ok := k.Endpoint(r)
	return ok
}

// Endpoint finds the endpoint of a route. A port in the path makes it another unless it leads to
// whatever port is named.
func (k *Kind) Endpoint(r Route) (sandbarv1alpha1.Endpoint, bool) {
	if k == nil {
		return sandbarv1alpha1.Endpoint{}, false
	}
	e, ok := contract.Find(k.DataPlane(), r.Component, r.Verb)
	return e, ok && (r.Port == "" || contract.AnyPort(&e))
}

// Previews tells whether an instance of the kind, or what the route names of it, can be seen in a
// browser.
func (k *Kind) Previews(r Route) bool {
	if k == nil {
		return false
	}
	e, ok := contract.Preview(k.DataPlane(), r.Component)
	return ok && (r.Port == "" || contract.AnyPort(&e))
}

// Kinds follows the Templates of the provider workspace: what is exported can be reached.
// Reading needs no lock: a change makes a new index.
type Kinds struct {
	templates cache.SharedIndexInformer
	// source is what templates lists by.
	source  *relist.ListerWatcher
	runtime dynamic.Interface
	// names are those of what the provider has on the runtime cluster.
	names placement.Names
	log   *slog.Logger
	// Watchers are told of the instances of all kinds; set them before run.
	Watchers []cache.ResourceEventHandler
	index    atomic.Pointer[map[schema.GroupResource]*Kind]
	// sessions is the kind of DevSessions; nil while no Template has copies.
	sessions atomic.Pointer[Kind]
	handled  atomic.Pointer[cache.ResourceEventHandlerRegistration]

	// mu guards what follows; it is held while Templates are compared with what runs.
	mu      sync.Mutex
	running map[schema.GroupVersionResource]*Instances
	wg      sync.WaitGroup
}

// NewKinds returns the kinds of the Templates in the provider workspace. Nothing is read until Run.
func NewKinds(provider, runtimeCluster dynamic.Interface, names placement.Names, log *slog.Logger) (*Kinds, error) {
	k := &Kinds{runtime: runtimeCluster, names: names, log: log, running: map[schema.GroupVersionResource]*Instances{}}
	k.index.Store(&map[schema.GroupResource]*Kind{})
	k.templates, k.source = relist.NewInformer(provider, templatesResource, nil)
	if err := k.templates.SetTransform(decodeTemplate); err != nil {
		return nil, fmt.Errorf("watching Templates: %w", err)
	}
	return k, nil
}

// Run follows the Templates until ctx ends; it returns when no goroutine of it is left.
func (k *Kinds) Run(ctx context.Context) error {
	changed := func(any) { k.rebuild(ctx) }
	handled, err := k.templates.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, _ any) { k.rebuild(ctx) }, DeleteFunc: changed,
	})
	if err != nil {
		return fmt.Errorf("watching Templates: %w", err)
	}
	k.handled.Store(&handled)
	k.wg.Go(func() { k.source.Every(ctx, SchemaInterval) })
	k.templates.RunWithContext(ctx)
	k.wg.Wait()
	return nil
}

// Ready tells whether Templates and the instances of their kinds are known, or at least a kind
// that is not has had its time.
func (k *Kinds) Ready() bool {
	if !k.Indexed() {
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

// Indexed tells whether the Templates that there were at the start can be found. That they have
// been listed is not enough: the index is made a moment later.
func (k *Kinds) Indexed() bool {
	handled := k.handled.Load()
	return handled != nil && (*handled).HasSynced()
}

// Find returns the kind of a route; nil if no Template defines it.
func (k *Kinds) Find(r Route) *Kind {
	found := (*k.index.Load())[schema.GroupResource{Group: r.Group, Resource: r.Resource}]
	if sessions := k.sessions.Load(); found == nil && sessions != nil && sessions.Resource.Resource == r.Resource && sessions.Resource.Group == r.Group {
		found = sessions
	}
	if found == nil || found.Resource.Version != r.Version {
		return nil
	}
	return found
}

// All returns the kinds, sorted by the name of their Template.
func (k *Kinds) All() []*Kind {
	var list []*Kind
	for _, found := range *k.index.Load() {
		list = append(list, found)
	}
	slices.SortFunc(list, func(a, b *Kind) int { return cmp.Compare(a.Template.Name, b.Template.Name) })
	return list
}

// rebuild makes the index anew and starts and stops informers to match. Templates are few and
// change rarely.
func (k *Kinds) rebuild(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	index := map[schema.GroupResource]*Kind{}
	wanted := map[schema.GroupVersionResource]bool{}
	for _, t := range k.exported() {
		gvr := schema.GroupVersionResource{Group: t.Status.Group, Version: t.Status.Version, Resource: t.Status.Resource}
		if index[gvr.GroupResource()] != nil {
			continue // the older Template has the name
		}
		wanted[gvr] = true
		index[gvr.GroupResource()] = &Kind{
			Template: t, Resource: gvr, Verbs: contract.Verbs(&t.Spec.DataPlane), Instances: k.start(ctx, gvr, t.Status.RuntimeSchema),
		}
	}
	linkParts(index)
	k.index.Store(&index)
	k.sessions.Store(sessionKind(index))
	for gvr, i := range k.running {
		if !wanted[gvr] {
			i.stop()
			delete(k.running, gvr)
			k.log.Info("kind is no longer served", "resource", gvr.GroupResource().String())
		}
	}
}

// linkParts has the kinds of compound instances know those of their parts.
func linkParts(index map[schema.GroupResource]*Kind) {
	for _, k := range index {
		if k.Template.Spec.Compound == nil {
			continue
		}
		for _, part := range index {
			if part.Template.Name == k.Template.Spec.Compound.Template {
				k.Part = part
			}
		}
	}
}

// exported lists the Templates that tenants can use, oldest first.
func (k *Kinds) exported() []*sandbarv1alpha1.Template {
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

// start returns the instances of a kind, and starts to follow them if they are not. k.mu is held.
func (k *Kinds) start(ctx context.Context, gvr schema.GroupVersionResource, runtimeSchema string) *Instances {
	if running, ok := k.running[gvr]; ok {
		running.follow(runtimeSchema)
		return running
	}
	ctx, stop := context.WithCancel(ctx)
	i := newInstances(k.runtime, schema.GroupVersionResource{Group: k.names.Group(), Version: gvr.Version, Resource: gvr.Resource}, stop)
	for _, watcher := range k.Watchers {
		_, _ = i.informer.AddEventHandler(watcher) // fails only once the informer has stopped
	}
	k.running[gvr] = i
	k.wg.Go(func() { i.informer.RunWithContext(ctx) })
	i.follow(runtimeSchema)
	k.log.Info("kind is served", "resource", gvr.GroupResource().String())
	return i
}

// Placed restricts an informer to what belongs to a placement.
func Placed(o *metav1.ListOptions) { o.LabelSelector = placement.LabelInstanceUID }

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
	t.Spec.DataPlane = *contract.InForce(t)
	return t, nil
}

// DefaultWakeTimeout is how long a request waits for an instance to wake if the Template says nothing.
const DefaultWakeTimeout = time.Minute

// WakeTimeout is how long a request to a sleeping instance of the kind waits.
func (k *Kind) WakeTimeout() time.Duration {
	if t := k.DataPlane().WakeTimeout; t != nil && t.Duration > 0 {
		return t.Duration
	}
	return DefaultWakeTimeout
}
