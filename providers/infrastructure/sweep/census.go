// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// kcpCensus asks kcp which instances there are. It goes by what the APIExport offers and not by
// Templates: an operator who loses a Template, with its finalizer, has not asked for its tenants'
// instances to go.
type kcpCensus struct {
	provider   client.Reader // of the provider workspace, live
	config     *rest.Config
	exportName string
}

// begin implements census.
func (c *kcpCensus) begin(ctx context.Context) (string, look, error) {
	endpoints, err := export.ReadEndpoints(ctx, c.provider, c.exportName)
	if err != nil {
		return "", nil, err
	}
	shards, err := endpoints.Shards(c.config)
	if err != nil {
		return "", nil, err
	}
	kinds, err := c.kinds(ctx)
	if err != nil {
		return "", nil, err
	}
	l := &kcpLook{kinds: kinds, shards: shards, found: map[placement.Owner]bool{}, silent: map[string]bool{}}
	for _, k := range kinds {
		for _, shard := range shards {
			// A list that cannot be had proves nothing; each of its instances is then asked for.
			_ = listAll(ctx, shard, k, l.found)
		}
	}
	return endpoints.Provider, l, nil
}

// kinds are the kinds that the export offers, by the Template that their schema is labelled with.
func (c *kcpCensus) kinds(ctx context.Context) (map[string]scope.Kind, error) {
	offers := &kcpapisv1alpha2.APIExport{}
	if err := c.provider.Get(ctx, client.ObjectKey{Name: c.exportName}, offers); err != nil {
		return nil, fmt.Errorf("reading the APIExport: %w", err)
	}
	kinds := map[string]scope.Kind{}
	for _, offered := range offers.Spec.Resources {
		apiSchema := &kcpapisv1alpha1.APIResourceSchema{}
		if err := c.provider.Get(ctx, client.ObjectKey{Name: offered.Schema}, apiSchema); err != nil {
			return nil, fmt.Errorf("reading APIResourceSchema %s: %w", offered.Schema, err)
		}
		for _, version := range apiSchema.Spec.Versions {
			template := apiSchema.Labels[placement.LabelTemplate]
			if kind, ok := builtin.Lookup(apiSchema.Spec.Names.Kind); template == "" && ok && kind.KeepsPlacements {
				template = kind.Name
			}
			if template != "" && version.Served {
				gvk := schema.GroupVersionKind{Group: offered.Group, Version: version.Name, Kind: apiSchema.Spec.Names.Kind}
				kinds[template] = scope.Kind{Template: template, Kind: export.Kind{GVK: gvk, Resource: offered.Name}}
			}
		}
	}
	return kinds, nil
}

// kcpLook is one look at kcp.
type kcpLook struct {
	kinds  map[string]scope.Kind // by Template
	shards []*export.Shard
	found  map[placement.Owner]bool
	// silent are the URLs of shards that did not answer in time. They are asked no more in this look: a
	// thousand placements would keep it for hours.
	silent map[string]bool
}

// listed implements look.
func (l *kcpLook) listed(ns *corev1.Namespace) bool {
	whose, ok := subjectOf(ns)
	return ok && l.found[whose.owner]
}

// ask implements look.
func (l *kcpLook) ask(ctx context.Context, ns *corev1.Namespace) fate {
	whose, ok := subjectOf(ns)
	k, offered := l.kinds[whose.kind]
	if !ok || !offered {
		return unknown
	}
	obj, err := export.Ask(l.shards, func(s *export.Shard) (*unstructured.Unstructured, error) {
		return l.get(ctx, s, k, whose.key)
	})
	switch {
	case err == nil && obj.GetUID() == whose.owner.UID:
		return alive
	case err == nil, export.IsGone(err): // the name is another's now, or nobody's
		return gone
	}
	return unknown
}

// get asks a shard for the object of a key, unless the shard did not answer in time before: that it
// is silent proves nothing.
func (l *kcpLook) get(ctx context.Context, shard *export.Shard, k scope.Kind, key export.Key) (*unstructured.Unstructured, error) {
	if l.silent[shard.URL] {
		return nil, errSilent
	}
	bounded, cancel := context.WithTimeout(ctx, export.ProbeTimeout)
	defer cancel()
	obj, err := shard.Get(bounded, k.Kind, key)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		l.silent[shard.URL] = true
	}
	return obj, err
}

// errSilent means that a shard did not answer in time before.
var errSilent = errors.New("the shard does not answer")

// listAll adds the instances that a shard lists. It bounds how long the shard may take for one page.
func listAll(ctx context.Context, shard *export.Shard, k scope.Kind, found map[placement.Owner]bool) error {
	all, err := shard.Resource(export.EveryWorkspace, k.GVR())
	if err != nil {
		return err
	}
	list := func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		ctx, cancel := context.WithTimeout(ctx, export.ProbeTimeout)
		defer cancel()
		return all.List(ctx, options)
	}
	return export.Pages(ctx, list, func(item *unstructured.Unstructured) {
		found[placement.Owner{Cluster: logicalcluster.From(item).String(), UID: item.GetUID()}] = true
	})
}
