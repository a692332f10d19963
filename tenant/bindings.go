// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// The permission claim that a tenant accepts so that callers without a token can be asked about.
const (
	ClaimGroup    = "authorization.k8s.io"
	ClaimResource = "subjectaccessreviews"
	ClaimVerb     = "create"
)

// binding is what matters of an APIBinding. It is comparable: an update that changes nothing of
// it is none.
type binding struct {
	// endpoint is the URL of the virtual workspace that showed it, which is that of the shard
	// where the workspace lives.
	endpoint string
	cluster  string
	name     string
	// path is kcp's own annotation; its admission overwrites what a tenant puts there.
	path string
	// bound is set while the binding gives the provider and the tenant what it is for.
	bound bool
	// claimed is set while the tenant lets the provider ask about its users.
	claimed bool
}

func (b binding) same(other binding) bool { return b.cluster == other.cluster && b.name == other.name }

// bindings are the APIBindings of the export in all workspaces on all shards. They grow with the
// workspaces that have bound it, by some strings each, and with nothing that a caller sends.
type bindings struct {
	export string
	// changed is told the logical cluster whose binding went or changed.
	changed func(cluster string)

	mu        sync.RWMutex
	byCluster map[string][]binding
	// byPath has more than one cluster while a workspace is made anew under its path.
	byPath map[string][]string
	// listed are the endpoints whose bindings are known, by URL.
	listed map[string]bool
}

func newBindings(export string) *bindings {
	return &bindings{
		export: export, changed: func(string) {},
		byCluster: map[string][]binding{}, byPath: map[string][]string{}, listed: map[string]bool{},
	}
}

// find returns the binding of a workspace, given by its path or its logical cluster name. A path
// that two workspaces claim names neither.
func (b *bindings) find(workspace string) (binding, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	cluster := workspace
	if clusters, ok := b.byPath[workspace]; ok {
		if len(clusters) != 1 {
			return binding{}, false
		}
		cluster = clusters[0]
	}
	var found binding
	for _, candidate := range b.byCluster[cluster] {
		if candidate.bound && (found.cluster == "" || candidate.claimed) {
			found = candidate
		}
	}
	return found, found.cluster != ""
}

// ended tells whether a cluster's bindings are there and none of them is bound.
func (b *bindings) ended(cluster string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	list := b.byCluster[cluster]
	return len(list) > 0 && !slices.ContainsFunc(list, func(one binding) bool { return one.bound })
}

// complete tells whether all of some endpoints have been listed.
func (b *bindings) complete(endpoints []string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, url := range endpoints {
		if !b.listed[url] {
			return false
		}
	}
	return true
}

// put adds or replaces a binding and tells whether that changed what was known: one that nothing
// was known of takes nothing from anybody.
func (b *bindings) put(next binding) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.byCluster[next.cluster], next) {
		return false
	}
	known := b.removeLocked(next)
	b.byCluster[next.cluster] = append(b.byCluster[next.cluster], next)
	if next.path != "" && !slices.Contains(b.byPath[next.path], next.cluster) {
		b.byPath[next.path] = append(b.byPath[next.path], next.cluster)
	}
	return known
}

func (b *bindings) remove(gone binding) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.removeLocked(gone)
}

func (b *bindings) removeLocked(gone binding) bool {
	list := b.byCluster[gone.cluster]
	at := slices.IndexFunc(list, gone.same)
	if at < 0 {
		return false
	}
	path := list[at].path
	if list = slices.Delete(list, at, at+1); len(list) > 0 {
		b.byCluster[gone.cluster] = list
	} else {
		delete(b.byCluster, gone.cluster)
	}
	if slices.ContainsFunc(list, func(other binding) bool { return other.path == path }) {
		return true
	}
	clusters := slices.DeleteFunc(b.byPath[path], func(c string) bool { return c == gone.cluster })
	if len(clusters) > 0 {
		b.byPath[path] = clusters
	} else {
		delete(b.byPath, path)
	}
	return true
}

// of lists the bindings that an endpoint has shown.
func (b *bindings) of(endpoint string) []binding {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var list []binding
	for _, some := range b.byCluster {
		for _, one := range some {
			if one.endpoint == endpoint {
				list = append(list, one)
			}
		}
	}
	return list
}

// drop forgets an endpoint with everything that it has shown.
func (b *bindings) drop(endpoint string) {
	b.mu.Lock()
	delete(b.listed, endpoint)
	b.mu.Unlock()
	for _, gone := range b.of(endpoint) {
		if b.remove(gone) {
			b.changed(gone.cluster)
		}
	}
}

// decode keeps of an APIBinding what matters.
func (b *bindings) decode(endpoint string, obj any) (binding, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return binding{}, fmt.Errorf("%w: an APIBinding of type %T", errAnswer, obj)
	}
	var from kcpapisv1alpha2.APIBinding
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &from); err != nil {
		return binding{}, fmt.Errorf("decoding an APIBinding: %w", err)
	}
	export := from.Spec.Reference.Export
	return binding{
		endpoint: endpoint, cluster: logicalcluster.From(&from).String(), name: from.Name,
		path: from.Annotations[core.LogicalClusterPathAnnotationKey],
		bound: from.DeletionTimestamp == nil && from.Status.Phase == kcpapisv1alpha2.APIBindingPhaseBound &&
			export != nil && export.Name == b.export,
		claimed: slices.ContainsFunc(from.Spec.PermissionClaims, acceptsReviews),
	}, nil
}

func acceptsReviews(claim kcpapisv1alpha2.AcceptablePermissionClaim) bool {
	return claim.State == kcpapisv1alpha2.ClaimAccepted && claim.Group == ClaimGroup && claim.Resource == ClaimResource &&
		(slices.Contains(claim.Verbs, ClaimVerb) || slices.Contains(claim.Verbs, "*"))
}

// endpointStore is where the reflector of one endpoint puts what it sees. An informer's own
// store would not do: names repeat from workspace to workspace.
type endpointStore struct {
	*bindings
	url string
}

// Add implements cache.ReflectorStore.
func (s endpointStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s endpointStore) Update(obj any) error {
	next, err := s.decode(s.url, obj)
	if err == nil && s.put(next) {
		s.changed(next.cluster)
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (s endpointStore) Delete(obj any) error {
	gone, err := s.decode(s.url, obj)
	if err == nil && s.remove(gone) {
		s.changed(gone.cluster)
	}
	return err
}

// Replace implements cache.ReflectorStore: what a new list lacks is gone, although no watch has
// said so.
func (s endpointStore) Replace(list []any, _ string) error {
	var now []binding
	there := map[[2]string]bool{}
	for _, obj := range list {
		// What cannot be read counts as absent: one odd binding must not hide all others.
		if next, err := s.decode(s.url, obj); err == nil {
			now = append(now, next)
			there[[2]string{next.cluster, next.name}] = true
		}
	}
	for _, old := range s.of(s.url) {
		if !there[[2]string{old.cluster, old.name}] && s.remove(old) {
			s.changed(old.cluster)
		}
	}
	for _, next := range now {
		if s.put(next) {
			s.changed(next.cluster)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed[s.url] = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (s endpointStore) Resync() error { return nil }
