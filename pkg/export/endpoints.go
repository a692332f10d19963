// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Endpoints are where an APIExport is served at one time.
type Endpoints struct {
	// Provider is the logical cluster of the provider workspace.
	Provider string
	// URLs are those of the virtual workspaces, one per shard that has a consumer. None is an answer
	// too: no workspace has bound the export yet.
	URLs []string
}

// ReadEndpoints reads the APIExportEndpointSlice of an export, which has its name. The reader is of the
// provider workspace. The error satisfies apierrors.IsNotFound if there is no slice.
func ReadEndpoints(ctx context.Context, reader client.Reader, name string) (Endpoints, error) {
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, slice); err != nil {
		return Endpoints{}, fmt.Errorf("reading APIExportEndpointSlice %s: %w", name, err)
	}
	return Endpoints{Provider: logicalcluster.From(slice).String(), URLs: urlsOf(slice)}, nil
}

// Shards returns the shards behind the endpoints. config has the provider's identity; its host is replaced.
func (e Endpoints) Shards(config *rest.Config) ([]*Shard, error) {
	var shards []*Shard
	for _, url := range e.URLs {
		shard, err := NewShard(config, url)
		if err != nil {
			return nil, err
		}
		shards = append(shards, shard)
	}
	return shards, nil
}

// urlsOf are the URLs that a slice names, each once.
func urlsOf(slice *kcpapisv1alpha1.APIExportEndpointSlice) []string {
	var urls []string
	for _, endpoint := range slice.Status.APIExportEndpoints {
		if endpoint.URL != "" {
			urls = append(urls, strings.TrimSuffix(endpoint.URL, "/"))
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls)
}
