// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// errNoBinding means that a virtual workspace has shown something else as an APIBinding.
var errNoBinding = errors.New("it is not an APIBinding")

// Claim is a permission claim that a tenant accepts or rejects with its binding.
type Claim struct{ Group, Resource, Verb string }

// acceptedBy reports whether a binding's accepted claims include the claim.
func (c Claim) acceptedBy(given kcpapisv1alpha2.AcceptablePermissionClaim) bool {
	return given.State == kcpapisv1alpha2.ClaimAccepted && given.Group == c.Group && given.Resource == c.Resource &&
		(slices.Contains(given.Verbs, c.Verb) || slices.Contains(given.Verbs, "*"))
}

// Binding is what matters of an APIBinding. It is comparable: an update that changes nothing of it is
// none.
type Binding struct {
	// Endpoint is the URL of the virtual workspace that showed it, which is that of the shard
	// where the workspace lives.
	Endpoint string
	Cluster  string
	Name     string
	// Path is kcp's own annotation; its admission overwrites what a tenant puts there.
	Path string
	// Bound is set once kcp serves every kind of the export with it. Before that, which is for good where
	// the workspace has a CRD of one of these names, the tenant has the other kinds.
	Bound bool
	// Going is set while the binding gives nothing any more: its tenant has deleted it, and its objects
	// are still there.
	Going bool
	// Claimed is set while the tenant accepts the claim.
	Claimed bool
	// created is when it was made, in seconds since 1970 by kcp's clock.
	created int64
}

func (b Binding) same(other Binding) bool { return b.Cluster == other.Cluster && b.Name == other.Name }

// bindingIndex finds the APIBindings of the export in all workspaces on all shards. It grows with the
// workspaces that have bound it, by some strings each, and with nothing that a caller sends.
type bindingIndex struct {
	export string
	claim  Claim
	// changed is told the logical cluster whose binding went or changed.
	changed func(cluster string)

	mu        sync.RWMutex
	byCluster map[string][]Binding
	// byPath has more than one cluster while a workspace is made anew under its path.
	byPath map[string][]string
	// news is, by cluster, since when it has been bound or claimed as it is.
	news map[string]time.Time
	// listed are the endpoints whose bindings are known, by URL.
	listed map[string]bool
}

func newBindingIndex(export string, claim Claim) *bindingIndex {
	return &bindingIndex{
		export: export, claim: claim, changed: func(string) {},
		byCluster: map[string][]Binding{}, byPath: map[string][]string{}, news: map[string]time.Time{}, listed: map[string]bool{},
	}
}

// find returns the binding of a workspace, given by its path or its logical cluster name. A path
// that two workspaces claim names neither.
func (b *bindingIndex) find(workspace string) (Binding, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var found Binding
	for _, candidate := range b.byCluster[b.clusterLocked(workspace)] {
		if !candidate.Going && (found.Cluster == "" || candidate.Claimed) {
			found = candidate
		}
	}
	return found, found.Cluster != ""
}

// clusterLocked returns the logical cluster of a workspace, given by its path or by that itself; "" for a
// path that two workspaces claim.
func (b *bindingIndex) clusterLocked(workspace string) string {
	clusters, ok := b.byPath[workspace]
	switch {
	case !ok:
		return workspace
	case len(clusters) == 1:
		return clusters[0]
	}
	return ""
}

// ended reports whether a cluster's bindings are there and all of them are going. One that is not bound
// yet has not ended: kcp serves the kinds that it has already while the rest of them is being made.
func (b *bindingIndex) ended(cluster string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	list := b.byCluster[cluster]
	return len(list) > 0 && !slices.ContainsFunc(list, func(one Binding) bool { return !one.Going })
}

// complete reports whether all of some endpoints have been listed.
func (b *bindingIndex) complete(endpoints []string) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, url := range endpoints {
		if !b.listed[url] {
			return false
		}
	}
	return true
}

// isNew reports whether a workspace's binding gives what it gives for less than some time, or does not
// give all of it yet.
func (b *bindingIndex) isNew(workspace string, within time.Duration) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	cluster := b.clusterLocked(workspace)
	list := b.byCluster[cluster]
	return slices.ContainsFunc(list, func(one Binding) bool {
		return !one.Going && (!one.Bound || time.Since(b.news[cluster]) < within)
	})
}

// put adds or replaces a binding that is as it is since some time, and tells whether that changed
// what was known: one that nothing was known of takes nothing from anybody.
func (b *bindingIndex) put(next Binding, since time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.byCluster[next.Cluster], next) {
		return false
	}
	if !slices.ContainsFunc(b.byCluster[next.Cluster], func(one Binding) bool {
		return one.Bound == next.Bound && one.Going == next.Going && one.Claimed == next.Claimed
	}) {
		b.news[next.Cluster] = since
	}
	known := b.removeLocked(next)
	b.byCluster[next.Cluster] = append(b.byCluster[next.Cluster], next)
	if next.Path != "" && !slices.Contains(b.byPath[next.Path], next.Cluster) {
		b.byPath[next.Path] = append(b.byPath[next.Path], next.Cluster)
	}
	return known
}

func (b *bindingIndex) remove(gone Binding) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.removeLocked(gone)
	if len(b.byCluster[gone.Cluster]) == 0 {
		delete(b.news, gone.Cluster)
	}
	return known
}

func (b *bindingIndex) removeLocked(gone Binding) bool {
	list := b.byCluster[gone.Cluster]
	at := slices.IndexFunc(list, gone.same)
	if at < 0 {
		return false
	}
	path := list[at].Path
	if list = slices.Delete(list, at, at+1); len(list) > 0 {
		b.byCluster[gone.Cluster] = list
	} else {
		delete(b.byCluster, gone.Cluster)
	}
	if slices.ContainsFunc(list, func(other Binding) bool { return other.Path == path }) {
		return true
	}
	clusters := slices.DeleteFunc(b.byPath[path], func(c string) bool { return c == gone.Cluster })
	if len(clusters) > 0 {
		b.byPath[path] = clusters
	} else {
		delete(b.byPath, path)
	}
	return true
}

// of lists the bindings that an endpoint has shown.
func (b *bindingIndex) of(endpoint string) []Binding {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var list []Binding
	for _, some := range b.byCluster {
		for _, one := range some {
			if one.Endpoint == endpoint {
				list = append(list, one)
			}
		}
	}
	return list
}

// drop forgets an endpoint with everything that it has shown.
func (b *bindingIndex) drop(endpoint string) {
	b.mu.Lock()
	delete(b.listed, endpoint)
	b.mu.Unlock()
	for _, gone := range b.of(endpoint) {
		if b.remove(gone) {
			b.changed(gone.Cluster)
		}
	}
}

// decode keeps of an APIBinding what matters.
func (b *bindingIndex) decode(endpoint string, obj any) (Binding, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return Binding{}, fmt.Errorf("%w: %T", errNoBinding, obj)
	}
	var from kcpapisv1alpha2.APIBinding
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &from); err != nil {
		return Binding{}, fmt.Errorf("decoding an APIBinding: %w", err)
	}
	export := from.Spec.Reference.Export
	return Binding{
		Endpoint: endpoint, Cluster: logicalcluster.From(&from).String(), Name: from.Name,
		Path:  from.Annotations[core.LogicalClusterPathAnnotationKey],
		Bound: from.Status.Phase == kcpapisv1alpha2.APIBindingPhaseBound,
		// The virtual workspace shows no binding to another export; if it did, it would give nothing here.
		Going:   from.DeletionTimestamp != nil || export == nil || export.Name != b.export,
		Claimed: slices.ContainsFunc(from.Spec.PermissionClaims, b.claim.acceptedBy),
		created: from.CreationTimestamp.Unix(),
	}, nil
}

// endpointStore is where the reflector of one endpoint puts what it sees. An informer's own
// store would not do: names repeat from workspace to workspace.
type endpointStore struct {
	*bindingIndex
	url string
}

// Add implements cache.ReflectorStore.
func (s endpointStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s endpointStore) Update(obj any) error {
	next, err := s.decode(s.url, obj)
	if err == nil && s.put(next, time.Now()) {
		s.changed(next.Cluster)
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (s endpointStore) Delete(obj any) error {
	gone, err := s.decode(s.url, obj)
	if err == nil && s.remove(gone) {
		s.changed(gone.Cluster)
	}
	return err
}

// Replace implements cache.ReflectorStore: what a new list lacks is gone, although no watch has
// said so.
func (s endpointStore) Replace(list []any, _ string) error {
	var now []Binding
	there := map[[2]string]bool{}
	for _, obj := range list {
		// What cannot be read counts as absent: one odd binding must not hide all others.
		if next, err := s.decode(s.url, obj); err == nil {
			now = append(now, next)
			there[[2]string{next.Cluster, next.Name}] = true
		}
	}
	for _, old := range s.of(s.url) {
		if !there[[2]string{old.Cluster, old.Name}] && s.remove(old) {
			s.changed(old.Cluster)
		}
	}
	for _, next := range now {
		// A list does not say when: at the start of this process all of it would be new.
		if s.put(next, time.Unix(next.created, 0)) {
			s.changed(next.Cluster)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed[s.url] = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (s endpointStore) Resync() error { return nil }
