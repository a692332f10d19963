// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// previews is what there is to know for previews: the domain, which the operator sets, and the
// keys, which all replicas share. Nothing of a single preview is kept.
type previews struct {
	settings *settings
	keys     *previewKeys
	domain   atomic.Pointer[preview.Domain]
	shared   prometheus.Gauge
	now      func() time.Time
	log      *slog.Logger
	reloads  *reloads
}

func newPreviews(s *settings, client kubernetes.Interface, namespace string, m *record.Metrics, log *slog.Logger) (*previews, error) {
	p := &previews{
		settings: s, now: time.Now, log: log, reloads: newReloads(),
		shared: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sandbar_dataplane_preview_domain_shared",
			Help: "1 if the preview domain is no public suffix, so that previews can set cookies for each other.",
		}),
	}
	if err := m.Registry.Register(p.shared); err != nil {
		return nil, fmt.Errorf("registering the metric of the preview domain: %w", err)
	}
	var err error
	if p.keys, err = newPreviewKeys(client, namespace, log); err != nil {
		return nil, err
	}
	p.domain.Store(&preview.Domain{})
	p.follow()
	s.onChange(p.follow)
	return p, nil
}

// follow takes over the domain of the settings.
func (p *previews) follow() {
	configured := p.settings.now().previewDomain
	domain := preview.Domain{}
	if configured != "" {
		var err error
		if domain, err = preview.ParseDomain(configured); err != nil {
			p.log.Error("the preview domain cannot be used: the last one stays in force", "error", err)
			return
		}
	}
	if domain == *p.domain.Load() {
		return
	}
	p.domain.Store(&domain)
	p.shared.Set(0)
	if !domain.IsZero() && !domain.Isolates() {
		p.shared.Set(1)
		p.log.Warn("the preview domain is no public suffix: a page of one preview can set cookies that others receive; see docs/previews.md", "domain", domain.String())
	}
}

// match reads the Host of a request.
func (p *previews) match(host string) (name preview.Name, below, valid bool) {
	return p.domain.Load().Match(host)
}

// previewKeys follows the Secret with the keys.
type previewKeys struct {
	informer cache.SharedIndexInformer
	held     atomic.Pointer[preview.Keys]
	log      *slog.Logger
	// name is the Secret's, for people.
	name string
}

func newPreviewKeys(client kubernetes.Interface, namespace string, log *slog.Logger) (*previewKeys, error) {
	name := namespace + "/" + placement.PreviewKeysSecret
	k := &previewKeys{log: log.With("secret", name), name: name}
	// One object, and not the cache of placements, whose Secrets lose what is no control token.
	k.informer = informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, placement.PreviewKeysSecret).String()
		})).Core().V1().Secrets().Informer()
	if _, err := k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: k.take, UpdateFunc: func(_, obj any) { k.take(obj) }, DeleteFunc: k.drop,
	}); err != nil {
		return nil, fmt.Errorf("watching the keys of preview links: %w", err)
	}
	return k, nil
}

func (k *previewKeys) run(ctx context.Context) { k.informer.RunWithContext(ctx) }

// current returns the keys: nil while they are not known, none if there is no Secret.
func (k *previewKeys) current() *preview.Keys {
	if held := k.held.Load(); held != nil || !k.informer.HasSynced() {
		return held
	}
	return &preview.Keys{}
}

func (k *previewKeys) take(obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || secret.Name != placement.PreviewKeysSecret {
		return
	}
	keys, err := preview.NewKeys(secret.Data)
	if err != nil {
		k.log.Error("some keys of preview links cannot be used", "error", err)
	}
	if keys.Empty() {
		k.log.Error("there is no key of preview links: add an entry of 32 random bytes")
	}
	k.held.Store(keys)
}

// drop ends all previews: whoever deletes the keys wants that.
func (k *previewKeys) drop(obj any) {
	if secret, ok := obj.(*corev1.Secret); ok && secret.Name != placement.PreviewKeysSecret {
		return
	}
	k.log.Error("the keys of preview links are gone: no preview can be opened")
	k.held.Store(&preview.Keys{})
}
