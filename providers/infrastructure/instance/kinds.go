// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// kinds runs one runner per exported Template. Its reconciles compare what runs with what
// should run, so that an endpoint or a controller that failed is tried again until it works.
type kinds struct {
	client     client.Client // of the provider workspace
	exportName string
	config     runnerConfig
	restart    chan event.TypedGenericEvent[*sandbarv1alpha1.Template]

	started chan struct{} // closed when base is set
	base    context.Context

	mu      sync.Mutex
	running map[string]*runner
}

// Start implements manager.Runnable: it keeps the runners as long as this process leads, and
// ends when they have ended.
func (k *kinds) Start(ctx context.Context) error {
	k.base = ctx
	close(k.started)
	<-ctx.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, r := range k.running {
		r.close(ctx)
		delete(k.running, name)
	}
	return nil
}

// Reconcile starts, adjusts or stops the runner of one Template.
func (k *kinds) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	select {
	case <-k.started:
	case <-ctx.Done():
		return reconcile.Result{}, nil
	}
	template := &sandbarv1alpha1.Template{}
	if err := k.client.Get(ctx, req.NamespacedName, template); apierrors.IsNotFound(err) {
		k.stop(ctx, req.Name)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the Template: %w", err)
	}
	s, err := k.settingsOf(ctx, template)
	if err != nil {
		return reconcile.Result{}, err
	}
	urls, err := endpointURLs(ctx, k.client, k.exportName)
	if err != nil {
		return reconcile.Result{}, err
	}
	r, err := k.ensure(ctx, template, s)
	if err != nil || r == nil {
		return reconcile.Result{}, err
	}
	r.configure(s)
	return reconcile.Result{}, r.follow(ctx, urls)
}

// ensure returns the Template's runner, started if need be, or nil while nothing is exported.
// A runner goes on although its Template is no longer accepted or is being deleted: instances
// that exist need their controller until the Template is gone.
func (k *kinds) ensure(ctx context.Context, template *sandbarv1alpha1.Template, s settings) (*runner, error) {
	wanted, exported := kindOf(template)
	k.mu.Lock()
	r := k.running[template.Name]
	k.mu.Unlock()
	if r != nil && r.ended() {
		kindRestartsTotal.WithLabelValues(template.Name).Inc()
		k.stop(ctx, template.Name)
		r = nil
	}
	if r != nil && (!exported || r.kind == wanted) {
		return r, nil
	}
	k.stop(ctx, template.Name)
	if !exported {
		return nil, nil
	}
	r, err := startRunner(k.base, k.config, wanted, s)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.base.Err() != nil { // Start has closed the others already
		r.close(ctx)
		return nil, nil
	}
	k.running[template.Name] = r
	k.config.log.Info("following a kind", "template", template.Name, "kind", wanted.gvk.Kind)
	return r, nil
}

func (k *kinds) stop(ctx context.Context, template string) {
	k.mu.Lock()
	r := k.running[template]
	delete(k.running, template)
	k.mu.Unlock()
	if r != nil {
		r.close(ctx)
		k.config.log.Info("stopped following a kind", "template", template, "kind", r.kind.gvk.Kind)
	}
}

// failed makes a Template be reconciled whose runner ended by itself.
func (k *kinds) failed(template string) {
	t := &sandbarv1alpha1.Template{}
	t.Name = template
	select {
	case k.restart <- event.TypedGenericEvent[*sandbarv1alpha1.Template]{Object: t}:
	case <-k.base.Done():
	}
}

// kindOf tells which kind a Template has exported, if any.
func kindOf(template *sandbarv1alpha1.Template) (kind, bool) {
	status := template.Status
	exported := status.SchemaName != "" || meta.IsStatusConditionTrue(status.Conditions, sandbarv1alpha1.TemplateExported)
	gvk := schema.GroupVersionKind{Group: status.Group, Version: status.Version, Kind: status.Kind}
	complete := gvk.Group != "" && gvk.Version != "" && gvk.Kind != "" && status.Resource != ""
	return kind{template: template.Name, gvk: gvk, resource: status.Resource}, exported && complete
}

func (k *kinds) settingsOf(ctx context.Context, template *sandbarv1alpha1.Template) (settings, error) {
	s := settings{
		provider:  logicalcluster.From(template).String(),
		dataPlane: *contract.Complete(&template.Spec),
		// A Secret in every placement would be one object more for each, used or not.
		wantsPassword: bytes.Contains(template.Spec.Graph.Raw, []byte(placement.PasswordSecret)),
	}
	if fields := template.Spec.PodTemplate; fields != nil {
		var list sandbarv1alpha1.TemplateList
		if err := k.client.List(ctx, &list); err != nil {
			return s, fmt.Errorf("listing the Templates: %w", err)
		}
		s.pod = &podWords{Fields: *fields, Offers: podOffers(list.Items)}
	}
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	err := k.client.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, infrastructure)
	if err == nil {
		s.infrastructure = &infrastructure.Spec
	} else if !apierrors.IsNotFound(err) {
		return s, fmt.Errorf("reading the InfrastructureProvider: %w", err)
	}
	return s, nil
}

// endpointURLs lists the virtual workspaces of the export, one per shard that has a consumer.
// None is an answer too: nobody has bound the export yet.
func endpointURLs(ctx context.Context, reader client.Reader, exportName string) ([]string, error) {
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	err := reader.Get(ctx, types.NamespacedName{Name: exportName}, slice)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the APIExportEndpointSlice: %w", err)
	}
	var urls []string
	for _, endpoint := range slice.Status.APIExportEndpoints {
		if endpoint.URL != "" {
			urls = append(urls, endpoint.URL)
		}
	}
	slices.Sort(urls)
	return slices.Compact(urls), nil
}
