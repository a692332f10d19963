// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"maps"
	"slices"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
)

// What is followed: install/rbac/controllers gives the right to the first, in all namespaces, and install/rbac/interception to the
// others, in those of Baselines.
var (
	configMaps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	inANamespaceOf = []schema.GroupVersionResource{
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	}
)

// asked is what is kept of the ConfigMap in which routes ask.
type asked struct {
	metav1.ObjectMeta

	// routes is what is asked for, and said, by Service, and text the same, to be compared.
	routes map[string]*intercept.Routes
	text   map[string]map[string]string
}

func keepAsked(u *unstructured.Unstructured) *asked {
	kept := &asked{ObjectMeta: metaOf(u), text: map[string]map[string]string{}}
	kept.Labels = map[string]string{placement.LabelManagedBy: u.GetLabels()[placement.LabelManagedBy]}
	kept.Annotations = map[string]string{placement.AnnotationProvider: u.GetAnnotations()[placement.AnnotationProvider]}
	data, _, _ := unstructured.NestedStringMap(u.Object, "data")
	kept.routes = intercept.ReadRoutes(data)
	for service, routes := range kept.routes {
		kept.text[service] = map[string]string{intercept.StateKey(service): routes.State.Encode()}
		for _, intent := range routes.Intents {
			kept.text[service][intercept.IntentKey(service, intent.UID)] = intent.Hash()
		}
	}
	return kept
}

func (a *asked) same(other *asked) bool {
	return a.UID == other.UID && equality.Semantic.DeepEqual(a.text, other.text) &&
		maps.Equal(a.Labels, other.Labels) && maps.Equal(a.Annotations, other.Annotations)
}

// asking are the SandboxRoutes that ask for proxies of a Service.
func (a *asked) asking(service string) (keys []export.Key) {
	if a.routes[service] == nil {
		return nil
	}
	for _, intent := range a.routes[service].Intents {
		keys = append(keys, keyOf(intent))
	}
	return keys
}

// part is what is kept of what is in a namespace: which Service it is about, and what would make another step.
type part struct {
	metav1.ObjectMeta

	// service is the name of that Service; empty for what is about none.
	service string
	// ours is set for what stands for an intercepted Service, also where nobody asks for it any more.
	ours bool
	// says is what matters of it. It is compared alone.
	says any
}

func (p *part) same(other *part) bool {
	return p.UID == other.UID && p.service == other.service && equality.Semantic.DeepEqual(p.says, other.says) && maps.Equal(p.Labels, other.Labels)
}

func metaOf(u *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}
}

// keepPart makes of an object of a namespace what is kept of it.
func keepPart(u *unstructured.Unstructured) *part {
	kept := &part{ObjectMeta: metaOf(u), service: u.GetLabels()[intercept.LabelService]}
	kept.ours = kept.service != ""
	switch u.GetKind() {
	case "Service":
		if kept.service == "" {
			kept.service = u.GetName()
			kept.Labels = u.GetLabels() // by which a Baseline chooses its Services
		}
		kept.says = []any{u.Object["spec"], u.GetAnnotations()[intercept.AnnotationOriginal], u.GetDeletionTimestamp() != nil}
	case "EndpointSlice":
		if kept.service == "" { // the controller of the cluster gives the slices of a Service its labels
			kept.service = u.GetLabels()[discoveryv1.LabelServiceName]
		}
		kept.says = u.Object["endpoints"]
	default:
		if kept.service != "" {
			kept.says = []any{u.Object["spec"], u.Object["status"]}
		}
	}
	return kept
}

// watch follows what routes ask for, and the namespaces in which they may.
type watch struct {
	client dynamic.Interface
	// wake has a Service looked at, and routeChanged a SandboxRoute.
	wake         func(types.NamespacedName)
	routeChanged func(export.Key)

	life context.Context //nolint:containedctx // that of the informers, which begin and end within
	end  context.CancelFunc
	wg   sync.WaitGroup

	mu sync.Mutex
	// provider is the logical cluster of the provider workspace; empty before it is known.
	provider string
	// routes is nil before start.
	routes *follow.Follower[*asked]
	// in are the watches of a namespace, by its name, and names the Services of it that are asked for, each with the routes.
	in    map[string][]*follow.Follower[*part]
	names map[string]map[string][]export.Key
}

func newWatch(client dynamic.Interface) *watch {
	w := &watch{client: client, in: map[string][]*follow.Follower[*part]{}, names: map[string]map[string][]export.Key{}}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// start begins to follow. wake is called from then on.
func (w *watch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.routes == nil && w.life.Err() == nil {
		w.routes = follow.Start(w.life, &w.wg, w.client, follow.Options[*asked]{
			Resource: configMaps, Name: intercept.RoutesConfigMap, Keep: keepAsked, Same: (*asked).same, Changed: w.changed,
		})
	}
}

// run waits for the end of ctx, and returns when no goroutine is left.
func (w *watch) run(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.wg.Wait()
	return nil
}

// isGranted reports whether a ConfigMap is one that grant has made for this provider (install/manifests/interception). Before the provider is
// known those of others are among them. It is the one place that decides which ConfigMaps are believed. A nil watch knows no provider.
//
// The attack: somebody who may make ConfigMaps in a namespace of their own makes one of this name, and has SandboxRoutes ask there
// for proxies of Services, or wait for them.
func (w *watch) isGranted(config metav1.Object) bool {
	if w == nil {
		return isGrantedBy("", config)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return isGrantedBy(w.provider, config)
}

func isGrantedBy(provider string, config metav1.Object) bool {
	return config.GetLabels()[placement.LabelManagedBy] == placement.ManagedBy &&
		(provider == "" || config.GetAnnotations()[placement.AnnotationProvider] == provider)
}

// believe notes whose ConfigMaps are believed.
func (w *watch) believe(provider string) {
	w.mu.Lock()
	isNews := w.provider != provider
	w.provider = provider
	w.mu.Unlock()
	if isNews {
		w.again()
	}
}

// items are the ConfigMaps that are believed, and how much is known of them.
func (w *watch) items() ([]*asked, follow.Knowledge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.itemsLocked()
}

func (w *watch) itemsLocked() ([]*asked, follow.Knowledge) {
	if w.routes == nil {
		return nil, follow.Looking
	}
	all, known := w.routes.Items()
	return slices.DeleteFunc(all, func(a *asked) bool { return !isGrantedBy(w.provider, a) }), known
}

// again has all looked at.
func (w *watch) again() {
	w.mu.Lock()
	routes := w.routes
	w.mu.Unlock()
	if routes == nil {
		return
	}
	all, _ := routes.Items()
	for _, one := range all {
		w.changed(one)
	}
}

// changed has those looked at that a change of what is asked for is about: about is a ConfigMap as it was and is, or none if more is known
// of all, or less.
func (w *watch) changed(about ...*asked) {
	if len(about) == 0 {
		w.again()
		return
	}
	first, last := about[0], about[len(about)-1]
	if w.isGranted(first) || w.isGranted(last) {
		w.wakeAbout(first, last)
	}
	w.adjust(last)
}

func (w *watch) wakeAbout(first, last *asked) {
	isMore := first == last || !maps.Equal(first.Labels, last.Labels) || !maps.Equal(first.Annotations, last.Annotations)
	for service := range union(first.text, last.text) {
		if !isMore && maps.Equal(first.text[service], last.text[service]) {
			continue
		}
		w.wake(types.NamespacedName{Namespace: last.Namespace, Name: service})
		for _, route := range slices.Concat(first.asking(service), last.asking(service)) {
			w.routeChanged(route)
		}
	}
}

func union(a, b map[string]map[string]string) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

// adjust follows the namespace of a ConfigMap if it is there and believed, and ends with it. The follower does not say which of both a change of one
// object is, so that its store is asked.
func (w *watch) adjust(one *asked) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.life.Err() != nil || w.routes == nil {
		return
	}
	namespace := one.Namespace
	all, known := w.itemsLocked()
	there := slices.ContainsFunc(all, func(a *asked) bool { return a.Namespace == namespace })
	switch {
	case !there && (known == follow.Known || !isGrantedBy(w.provider, one)):
		for _, f := range w.in[namespace] {
			f.Stop()
		}
		delete(w.in, namespace)
		delete(w.names, namespace)
		return
	case w.in[namespace] == nil:
		for _, gvr := range inANamespaceOf {
			w.in[namespace] = append(w.in[namespace], follow.Start(w.life, &w.wg, w.client, follow.Options[*part]{
				Resource: gvr, Namespace: namespace, Keep: keepPart, Same: (*part).same, Changed: w.partChanged,
			}))
		}
	}
	w.names[namespace] = map[string][]export.Key{}
	for service := range one.text {
		w.names[namespace][service] = one.asking(service)
	}
}

// partChanged has the Service looked at that something in its namespace is about: one that is asked for, or that has something of
// an interception, which may be left over.
func (w *watch) partChanged(about ...*part) {
	w.labelsChanged(about...)
	for _, one := range about {
		if one.service == "" {
			continue
		}
		w.mu.Lock()
		_, isAsked := w.names[one.Namespace][one.service]
		w.mu.Unlock()
		if isAsked || one.ours || leftOver(one) {
			w.wake(types.NamespacedName{Namespace: one.Namespace, Name: one.service})
		}
	}
}

// labelsChanged has the SandboxRoutes looked at that ask for a Service whose labels are others: it may be one of the Baseline's no more.
func (w *watch) labelsChanged(about ...*part) {
	if len(about) < 2 || maps.Equal(about[0].Labels, about[1].Labels) {
		return
	}
	w.mu.Lock()
	routes := w.names[about[1].Namespace][about[1].service]
	w.mu.Unlock()
	for _, route := range routes {
		w.routeChanged(route)
	}
}

// leftOver reports whether a Service has something of an interception.
func leftOver(p *part) bool {
	says, _ := p.says.([]any)
	if len(says) != 3 {
		return false
	}
	spec, _ := says[0].(map[string]any)
	selector, _, _ := unstructured.NestedStringMap(spec, "selector")
	return says[1] != "" || selector[intercept.LabelService] != ""
}

// all are the Services that are asked for.
func (w *watch) all() (names []types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for namespace, services := range w.names {
		for service := range services {
			names = append(names, types.NamespacedName{Namespace: namespace, Name: service})
		}
	}
	return names
}
