// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// watchBackoff paces a watch that fails. Its longest wait stays below what a stream may go on
// without being checked, so that a watch that comes back is worth something.
var watchBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Cap: 10 * time.Second, Steps: 8, Factor: 2, Jitter: 0.5}

// VirtualWorkspace is the bound workspaces as the provider sees them, through the virtual
// workspace of its APIExport on every shard. It follows the APIBindings, and it is what asks kcp
// about callers who have no credential of their own.
//
// It acts with the provider's credential, so it never answers whether a caller may: it asks kcp
// what a named subject may do, and reads objects for those of whom kcp has said yes (see Client).
type VirtualWorkspace struct {
	export    string
	config    *rest.Config
	transport http.RoundTripper
	slices    cache.SharedIndexInformer
	log       *slog.Logger
	bindings  *bindings

	// mu guards what follows.
	mu      sync.Mutex
	running map[string]context.CancelFunc // by endpoint URL
	wg      sync.WaitGroup
}

// NewVirtualWorkspace makes one for an APIExport by name. config leads to the provider workspace
// with the provider's identity. Nothing is sent until Run.
func NewVirtualWorkspace(config *rest.Config, export string, log *slog.Logger) (*VirtualWorkspace, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Timeout = -1, 0
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the provider's identity: %w", err)
	}
	provider, err := dynamic.NewForConfigAndClient(config, &http.Client{Transport: transport})
	if err != nil {
		return nil, fmt.Errorf("making a client for the provider workspace: %w", err)
	}
	v := &VirtualWorkspace{
		export: export, config: config, transport: transport, log: log,
		bindings: newBindings(export), running: map[string]context.CancelFunc{},
	}
	v.slices = dynamicinformer.NewFilteredDynamicInformer(
		provider, kcpapisv1alpha1.SchemeGroupVersion.WithResource("apiexportendpointslices"), metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, export).String()
		},
	).Informer()
	return v, nil
}

// OnChange sets what is told the logical cluster whose binding went or changed. It is called in
// the order of events and must return soon. Set it before Run.
func (v *VirtualWorkspace) OnChange(changed func(cluster string)) { v.bindings.changed = changed }

// Run follows the bindings until ctx ends; it returns when no goroutine of it is left.
func (v *VirtualWorkspace) Run(ctx context.Context) error {
	follow := func(any) { v.follow(ctx) }
	if _, err := v.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: follow, UpdateFunc: func(_, _ any) { v.follow(ctx) }, DeleteFunc: follow,
	}); err != nil {
		return fmt.Errorf("watching the endpoints of APIExport %s: %w", v.export, err)
	}
	v.slices.RunWithContext(ctx)
	v.wg.Wait()
	return nil
}

// Synced tells whether the bindings on all shards are known. Until then it is not known either
// which workspaces there are.
func (v *VirtualWorkspace) Synced() bool {
	return v.slices.HasSynced() && v.bindings.complete(v.endpoints())
}

// endpoints lists the URLs that the APIExportEndpointSlice has now. None is an answer too:
// nobody has bound the export yet.
func (v *VirtualWorkspace) endpoints() []string {
	obj, found, err := v.slices.GetStore().GetByKey(v.export)
	if err != nil || !found {
		return nil
	}
	var slice kcpapisv1alpha1.APIExportEndpointSlice
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &slice) != nil {
		return nil
	}
	var urls []string
	for _, endpoint := range slice.Status.APIExportEndpoints {
		if endpoint.URL != "" {
			urls = append(urls, strings.TrimSuffix(endpoint.URL, "/"))
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}

// follow starts and stops watches, so that there is one per endpoint.
func (v *VirtualWorkspace) follow(ctx context.Context) {
	wanted := v.endpoints()
	v.mu.Lock()
	defer v.mu.Unlock()
	for url, stop := range v.running {
		if !slices.Contains(wanted, url) {
			stop()
			delete(v.running, url)
			v.bindings.drop(url)
		}
	}
	for _, url := range wanted {
		if v.running[url] == nil {
			if err := v.watchLocked(ctx, url); err != nil {
				v.log.Error("cannot watch the bindings of an endpoint", "url", url, "error", err)
			}
		}
	}
}

func (v *VirtualWorkspace) watchLocked(ctx context.Context, url string) error {
	config := rest.CopyConfig(v.config)
	config.Host = url + "/clusters/*"
	client, err := dynamic.NewForConfigAndClient(config, &http.Client{Transport: v.transport})
	if err != nil {
		return fmt.Errorf("making a client for the virtual workspace: %w", err)
	}
	resource := client.Resource(kcpapisv1alpha2.SchemeGroupVersion.WithResource("apibindings"))
	backoff := watchBackoff // a copy: it counts its steps
	logger := logr.FromSlogHandler(v.log.Handler())
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: resource.Watch,
	}, client), &unstructured.Unstructured{}, endpointStore{v.bindings, url}, cache.ReflectorOptions{
		Name: "apibindings", TypeDescription: "APIBinding", Backoff: &backoff, Logger: &logger,
	})
	ctx, stop := context.WithCancel(ctx)
	v.running[url] = stop
	v.wg.Go(func() { reflector.RunWithContext(ctx) })
	return nil
}

// at returns the URL of a workspace's binding in the virtual workspace; its segments are
// escaped, so that no value can add one.
func (b binding) at(segments ...string) (*url.URL, error) {
	base, err := url.Parse(b.endpoint)
	if err != nil {
		return nil, fmt.Errorf("reading the address of a virtual workspace: %w", err)
	}
	return join(base, append([]string{"clusters", b.cluster}, segments...)...), nil
}
