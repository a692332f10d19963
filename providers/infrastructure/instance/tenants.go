// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/kcp-dev/sdk/apis/core"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// errNoEndpoint means that no shard offers the export now, so that nothing can be said of any
// tenant's object.
var errNoEndpoint = errors.New("no endpoint of the APIExport is open")

// tenants reads and writes the objects of one kind in all workspaces, on all shards.
type tenants struct {
	kind   kind
	config *rest.Config

	// paths remembers the workspace paths by cluster. They do not change.
	paths *lru.Cache[string, string]

	mu        sync.RWMutex
	endpoints map[string]*endpoint
}

// maxPaths bounds the remembered workspace paths; beyond it the least used are asked again.
const maxPaths = 8192

func newTenants(k kind, config *rest.Config) *tenants {
	paths, _ := lru.New[string, string](maxPaths) // fails only for a size below one
	return &tenants{kind: k, config: config, paths: paths, endpoints: map[string]*endpoint{}}
}

// follow makes the open endpoints those of the URLs; onOpen runs for each new one. An endpoint
// that cannot be opened does not keep others from opening; call again to retry.
func (t *tenants) follow(ctx context.Context, urls []string, onOpen func(*endpoint) error) error {
	for _, e := range t.open() {
		if !slices.Contains(urls, e.url) {
			t.forget(e)
		}
	}
	var errs []error
	for _, url := range urls {
		if err := t.engage(ctx, url, onOpen); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *tenants) engage(ctx context.Context, url string, onOpen func(*endpoint) error) error {
	t.mu.RLock()
	_, found := t.endpoints[url]
	t.mu.RUnlock()
	if found {
		return nil
	}
	e, err := openEndpoint(ctx, t.config, url, t.kind)
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.endpoints[url] = e
	t.mu.Unlock()
	if err := onOpen(e); err != nil {
		t.forget(e)
		return fmt.Errorf("watching %s at %s: %w", t.kind.resource, url, err)
	}
	return nil
}

func (t *tenants) forget(e *endpoint) {
	t.mu.Lock()
	delete(t.endpoints, e.url)
	t.mu.Unlock()
	e.close()
}

func (t *tenants) close() {
	for _, e := range t.open() {
		t.forget(e)
	}
}

func (t *tenants) open() []*endpoint {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.endpoints))
}

// cached returns a copy of the object from the cache, or nil.
func (t *tenants) cached(req request) *unstructured.Unstructured {
	for _, e := range t.open() {
		if obj := e.cached(req); obj != nil {
			return obj.DeepCopy()
		}
	}
	return nil
}

// live asks kcp. It answers NotFound only when every shard says so, because a workspace may
// live on any of them.
func (t *tenants) live(ctx context.Context, req request) (*unstructured.Unstructured, error) {
	answer := errNoEndpoint
	for _, e := range t.open() {
		client, err := e.in(req.cluster)
		if err != nil {
			return nil, err
		}
		obj, err := client.Namespace(req.Namespace).Get(ctx, req.Name, metav1.GetOptions{})
		if err == nil {
			return obj, nil
		}
		answer = worse(answer, err)
	}
	return nil, answer
}

// worse prefers the answer that says less: anything but NotFound leaves open whether the
// object exists.
func worse(a, b error) error {
	if errors.Is(a, errNoEndpoint) || apierrors.IsNotFound(a) {
		return b
	}
	return a
}

// patch writes a merge patch to the object or to a subresource and returns what it became.
func (t *tenants) patch(ctx context.Context, req request, data []byte, subresources ...string) (*unstructured.Unstructured, error) {
	answer := errNoEndpoint
	for _, e := range t.holding(req) {
		client, err := e.in(req.cluster)
		if err != nil {
			return nil, err
		}
		obj, err := client.Namespace(req.Namespace).
			Patch(ctx, req.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldOwner}, subresources...)
		if err == nil || (!apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)) {
			return obj, err
		}
		answer = worse(answer, err)
	}
	return nil, answer
}

// remove deletes the object under the UID and the resource version that were read: one that was
// made anew or changed since is another's, or renewed.
func (t *tenants) remove(ctx context.Context, req request, read *unstructured.Unstructured) error {
	uid, version := read.GetUID(), read.GetResourceVersion()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	answer := errNoEndpoint
	for _, e := range t.holding(req) {
		client, err := e.in(req.cluster)
		if err != nil {
			return err
		}
		err = client.Namespace(req.Namespace).Delete(ctx, req.Name, options)
		if err == nil || (!apierrors.IsNotFound(err) && !apierrors.IsForbidden(err)) {
			return err
		}
		answer = worse(answer, err)
	}
	return answer
}

// record writes an event beside the object. Where the workspace has not accepted the permission
// claim on events, the answer is Forbidden or NotFound.
func (t *tenants) record(ctx context.Context, req request, event *corev1.Event) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(event)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	answer := errNoEndpoint
	for _, e := range t.holding(req) {
		client, err := e.resource(req.cluster, corev1.SchemeGroupVersion.WithResource("events"))
		if err != nil {
			return err
		}
		_, err = client.Namespace(event.Namespace).Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{FieldManager: fieldOwner})
		if err == nil {
			return nil
		}
		answer = worse(answer, err)
	}
	return answer
}

// holding returns the endpoint whose cache has the object, or all of them: an object that was
// read live may not be in any cache yet.
func (t *tenants) holding(req request) []*endpoint {
	open := t.open()
	for _, e := range open {
		if e.cached(req) != nil {
			return []*endpoint{e}
		}
	}
	return open
}

// workspacePath reads the path of a workspace from its APIBinding. A failure costs no more than
// an annotation for people, so it is remembered like a path.
func (t *tenants) workspacePath(ctx context.Context, cluster string) string {
	if path, ok := t.paths.Get(cluster); ok {
		return path
	}
	path := ""
	for _, e := range t.open() {
		client, err := e.resource(cluster, apiBindings)
		if err != nil {
			continue
		}
		list, err := client.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) > 0 {
			path = list.Items[0].GetAnnotations()[core.LogicalClusterPathAnnotationKey]
			break
		}
	}
	t.paths.Add(cluster, path)
	return path
}

var apiBindings = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apibindings"}

// each calls f for every cached object.
func (t *tenants) each(f func(*unstructured.Unstructured)) {
	for _, e := range t.open() {
		for _, obj := range e.informer.GetStore().List() {
			f(obj.(*unstructured.Unstructured))
		}
	}
}
