// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// EveryWorkspace addresses all logical clusters of a shard at once; list and watch only.
	EveryWorkspace = "*"

	// pageSize is how many objects one answer of kcp holds.
	pageSize = 500
)

// APIBindings are the bindings of the export, which its virtual workspaces show.
var APIBindings = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apibindings"}

// Shard is the virtual workspace of an export on one shard of kcp.
type Shard struct {
	// URL is as the endpoint slice has it, without a slash at its end.
	URL string

	config     *rest.Config
	httpClient *http.Client
}

// NewShard returns the shard behind a URL of the endpoint slice. config has the provider's identity; its
// host is replaced. Nothing is sent.
func NewShard(config *rest.Config, url string) (*Shard, error) {
	url = strings.TrimSuffix(url, "/")
	config = rest.CopyConfig(config)
	config.Host = url
	config.QPS, config.Burst = -1, 0
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building a client for %s: %w", url, err)
	}
	return &Shard{URL: url, config: config, httpClient: httpClient}, nil
}

// Resource returns a client of a resource in one logical cluster, or in all with EveryWorkspace. It costs
// a few allocations and no connection: all clients of a shard share one transport, so none is kept per
// workspace (ADR 30).
func (s *Shard) Resource(cluster string, gvr schema.GroupVersionResource) (dynamic.NamespaceableResourceInterface, error) {
	client, err := dynamic.NewForConfigAndClient(s.in(cluster), s.httpClient)
	if err != nil {
		return nil, fmt.Errorf("building a client for %s: %w", s.URL, err)
	}
	return client.Resource(gvr), nil
}

func (s *Shard) in(cluster string) *rest.Config {
	config := rest.CopyConfig(s.config)
	config.Host += "/clusters/" + cluster
	return config
}

// Get reads an object of a kind in its own workspace.
func (s *Shard) Get(ctx context.Context, kind Kind, key Key) (*unstructured.Unstructured, error) {
	client, err := s.Resource(key.Cluster, kind.GVR())
	if err != nil {
		return nil, err
	}
	return client.Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

// Count counts the objects of a resource in all workspaces on the shard.
func (s *Shard) Count(ctx context.Context, gvr schema.GroupVersionResource) (int64, error) {
	client, err := metadata.NewForConfigAndClient(s.in(EveryWorkspace), s.httpClient)
	if err != nil {
		return 0, fmt.Errorf("building a client for %s: %w", s.URL, err)
	}
	// Not found is no count: the export offers the kind, so kcp only does not serve it yet.
	list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return 0, fmt.Errorf("listing %s at %s: %w", gvr.Resource, s.URL, err)
	}
	count := int64(len(list.Items))
	if list.RemainingItemCount != nil {
		count += *list.RemainingItemCount
	}
	return count, nil
}

// Each calls f for every object of a resource in a workspace, or in all with EveryWorkspace.
func (s *Shard) Each(ctx context.Context, cluster string, gvr schema.GroupVersionResource, f func(*unstructured.Unstructured)) error {
	client, err := s.Resource(cluster, gvr)
	if err != nil {
		return err
	}
	// Not found is an error, too: the export offers the kind, so kcp only does not serve it yet, or the
	// path leads elsewhere.
	if err := Pages(ctx, client.List, f); err != nil {
		return fmt.Errorf("listing %s of %s at %s: %w", gvr.Resource, cluster, s.URL, err)
	}
	return nil
}

// EachAsItsTenant calls f for every object of a resource on the shard, read as its tenant reads it. A list
// of all workspaces at once is read through the schema of any one of them, which may lack the very field
// that is asked about, so it only says which workspaces there are: each is then listed by itself (ADR 2).
func (s *Shard) EachAsItsTenant(ctx context.Context, gvr schema.GroupVersionResource, f func(*unstructured.Unstructured)) error {
	workspaces := map[string]bool{}
	err := s.Each(ctx, EveryWorkspace, gvr, func(obj *unstructured.Unstructured) { workspaces[logicalcluster.From(obj).String()] = true })
	if err != nil {
		return err
	}
	for _, cluster := range slices.Sorted(maps.Keys(workspaces)) {
		if err := s.Each(ctx, cluster, gvr, f); err != nil {
			return err
		}
	}
	return nil
}

// Pages calls f for every object of a list, page by page. What it has called f for before an error is not
// the whole list.
func Pages(ctx context.Context, list func(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error), f func(*unstructured.Unstructured)) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			f(&page.Items[i])
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
