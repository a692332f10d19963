// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	kcpcache "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	mcpcache "github.com/kcp-dev/multicluster-provider/pkg/cache"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// everyCluster addresses all logical clusters of an endpoint at once; list and watch only.
const everyCluster = "*"

// endpoint is the virtual workspace of the APIExport on one shard, seen through one kind. Its
// cache holds the kind's objects of all workspaces on that shard.
type endpoint struct {
	url        string
	config     *rest.Config
	httpClient *http.Client
	kind       kind
	informer   toolscache.SharedIndexInformer

	stop    context.CancelFunc
	stopped chan struct{}
}

// openEndpoint checks that the virtual workspace serves the kind and starts to follow it.
//
// The check matters: right after a kind was exported, and while kcp starts, the virtual
// workspace answers 404 or 503. An informer would back off for up to half a minute; the
// caller retries sooner.
func openEndpoint(ctx context.Context, config *rest.Config, url string, k kind) (*endpoint, error) {
	e, err := newEndpoint(config, url, k)
	if err != nil {
		return nil, err
	}
	if err := e.probe(ctx); err != nil {
		return nil, err
	}
	wildcard, err := mcpcache.NewWildcardCache(e.config, cache.Options{
		Scheme:           runtime.NewScheme(),
		HTTPClient:       e.httpClient,
		Mapper:           k.mapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("building a cache for %s: %w", url, err)
	}
	e.informer, _, _, err = wildcard.GetSharedInformer(k.newObject())
	if err != nil {
		return nil, fmt.Errorf("building an informer for %s: %w", url, err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go func() {
		defer close(e.stopped)
		_ = wildcard.Start(running) // returns nil when stopped, and nothing else
	}()
	return e, nil
}

// newEndpoint returns an endpoint that can be asked and is not followed.
func newEndpoint(config *rest.Config, url string, k kind) (*endpoint, error) {
	config = rest.CopyConfig(config)
	config.Host = strings.TrimSuffix(url, "/")
	config.QPS, config.Burst = -1, 0
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for %s: %w", url, err)
	}
	return &endpoint{url: url, config: config, httpClient: httpClient, kind: k, stopped: make(chan struct{})}, nil
}

// close stops following and waits until the informer's goroutines are gone.
func (e *endpoint) close() {
	e.stop()
	<-e.stopped
}

func (e *endpoint) probe(ctx context.Context) error {
	client, err := e.in(everyCluster)
	if err != nil {
		return err
	}
	if _, err := client.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("looking for %s at %s: %w", e.kind.resource, e.url, err)
	}
	return nil
}

// in returns a client of the kind in one logical cluster. It costs a few allocations and no
// connection: all clients of an endpoint share one transport, so none is kept per workspace.
func (e *endpoint) in(cluster string) (dynamic.NamespaceableResourceInterface, error) {
	return e.resource(cluster, e.kind.gvr())
}

func (e *endpoint) resource(cluster string, gvr schema.GroupVersionResource) (dynamic.NamespaceableResourceInterface, error) {
	config := rest.CopyConfig(e.config)
	config.Host += "/clusters/" + cluster
	client, err := dynamic.NewForConfigAndClient(config, e.httpClient)
	if err != nil {
		return nil, fmt.Errorf("building a client for %s: %w", e.url, err)
	}
	return client.Resource(gvr), nil
}

// cached returns the object of a request, or nil. It belongs to the cache: copy before writing.
func (e *endpoint) cached(req request) *unstructured.Unstructured {
	key := kcpcache.ToClusterAwareKey(req.cluster, req.Namespace, req.Name)
	obj, found, err := e.informer.GetStore().GetByKey(key)
	if err != nil || !found {
		return nil
	}
	return obj.(*unstructured.Unstructured)
}

// mapper knows the one kind, so that no discovery is needed.
func (k kind) mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{k.gvk.GroupVersion()})
	singular := k.gvk.GroupVersion().WithResource(strings.ToLower(k.gvk.Kind))
	mapper.AddSpecific(k.gvk, k.gvr(), singular, meta.RESTScopeNamespace)
	return mapper
}
