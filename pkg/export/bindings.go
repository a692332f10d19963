// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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

// Bindings follow the APIBindings of an export in all workspaces on all shards, through its virtual
// workspaces: which workspaces have bound it, under which paths, and which have accepted a claim.
type Bindings struct {
	export string
	config *rest.Config
	client *http.Client
	slices cache.SharedIndexInformer
	log    *slog.Logger
	index  *bindingIndex

	// mu guards what follows.
	mu      sync.Mutex
	running map[string]context.CancelFunc // by endpoint URL
	wg      sync.WaitGroup
}

// NewBindings returns the bindings of an export by its name. config leads to the provider workspace and
// client has the provider's identity. Nothing is sent until Run.
func NewBindings(config *rest.Config, client *http.Client, export string, claim Claim, log *slog.Logger) (*Bindings, error) {
	provider, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("making a client for the provider workspace: %w", err)
	}
	b := &Bindings{
		export: export, config: config, client: client, log: log,
		index: newBindingIndex(export, claim), running: map[string]context.CancelFunc{},
	}
	b.slices = dynamicinformer.NewFilteredDynamicInformer(
		provider, kcpapisv1alpha1.SchemeGroupVersion.WithResource("apiexportendpointslices"), metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, export).String()
		},
	).Informer()
	return b, nil
}

// OnChange sets what is told the logical cluster whose binding went or changed. It is called in
// the order of events and must return soon. Set it before Run.
func (b *Bindings) OnChange(changed func(cluster string)) { b.index.changed = changed }

// Run follows the bindings until ctx ends; it returns when no goroutine of it is left.
func (b *Bindings) Run(ctx context.Context) error {
	follow := func(any) { b.follow(ctx) }
	if _, err := b.slices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: follow, UpdateFunc: func(_, _ any) { b.follow(ctx) }, DeleteFunc: follow,
	}); err != nil {
		return fmt.Errorf("watching the endpoints of APIExport %s: %w", b.export, err)
	}
	b.slices.RunWithContext(ctx)
	b.wg.Wait()
	return nil
}

// Synced reports whether the bindings on all shards are known. Until then it is not known either
// which workspaces there are.
func (b *Bindings) Synced() bool {
	return b.slices.HasSynced() && b.index.complete(b.endpoints())
}

// endpoints lists the URLs that the APIExportEndpointSlice has now. None is an answer too:
// nobody has bound the export yet.
func (b *Bindings) endpoints() []string {
	obj, found, err := b.slices.GetStore().GetByKey(b.export)
	if err != nil || !found {
		return nil
	}
	var slice kcpapisv1alpha1.APIExportEndpointSlice
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &slice) != nil {
		return nil
	}
	return urlsOf(&slice)
}

// follow starts and stops watches, so that there is one per endpoint.
func (b *Bindings) follow(ctx context.Context) {
	wanted := b.endpoints()
	b.mu.Lock()
	defer b.mu.Unlock()
	for url, stop := range b.running {
		if !slices.Contains(wanted, url) {
			stop()
			delete(b.running, url)
			b.index.drop(url)
		}
	}
	for _, url := range wanted {
		if b.running[url] == nil {
			if err := b.watchLocked(ctx, url); err != nil {
				b.log.Error("cannot watch the bindings of an endpoint", "url", url, "error", err)
			}
		}
	}
}

// listed has a reflector list what there is at its start, in place of having it streamed (WatchList). client-go keeps the stream in a
// store by namespace and name (Reflector.watchList), in which the bindings of all workspaces that have one name are one: of
// all but one workspace nothing would be known until its binding changes.
type listed struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is asked by package watchlist of client-go.
func (listed) IsWatchListSemanticsUnSupported() bool { return true }

func (b *Bindings) watchLocked(ctx context.Context, url string) error {
	config := rest.CopyConfig(b.config)
	config.Host = url + "/clusters/*"
	client, err := dynamic.NewForConfigAndClient(config, b.client)
	if err != nil {
		return fmt.Errorf("making a client for the virtual workspace: %w", err)
	}
	resource := client.Resource(kcpapisv1alpha2.SchemeGroupVersion.WithResource("apibindings"))
	backoff := watchBackoff // a copy: it counts its steps
	logger := logr.FromSlogHandler(b.log.Handler())
	reflector := cache.NewReflectorWithOptions(listed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, o)
		},
		WatchFuncWithContext: resource.Watch,
	}}, &unstructured.Unstructured{}, b.Store(url), cache.ReflectorOptions{
		Name: "apibindings", TypeDescription: "APIBinding", Backoff: &backoff, Logger: &logger,
	})
	ctx, stop := context.WithCancel(ctx)
	b.running[url] = stop
	b.wg.Go(func() { reflector.RunWithContext(ctx) })
	return nil
}

// Store is where the reflector of one endpoint puts the bindings that it sees.
func (b *Bindings) Store(endpoint string) cache.ReflectorStore {
	return endpointStore{b.index, endpoint}
}

// Find returns the binding of a workspace, given by its path or its logical cluster name. A path that two
// workspaces claim names neither.
func (b *Bindings) Find(workspace string) (Binding, bool) { return b.index.find(workspace) }

// Ended reports whether a workspace, by its logical cluster's name, has given the export up: its binding
// is there and is going. Of a workspace without a binding nothing is known here, since the watch may be
// behind; kcp, when asked, says that it serves no such kind.
func (b *Bindings) Ended(cluster string) bool { return b.index.ended(cluster) }

// IsNew reports whether a workspace, by path or by its logical cluster's name, is binding the export, or
// has bound it or accepted its claims for less than some time. All of kcp takes a moment to know that.
func (b *Bindings) IsNew(workspace string, within time.Duration) bool {
	return b.index.isNew(workspace, within)
}
