// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/pkg/relist"
)

// settingsWait is how long the server waits for the InfrastructureProvider before it listens
// with what it has. Some limits cannot change once it listens.
const settingsWait = 5 * time.Second

var (
	providersResource = sandbarv1alpha1.GroupVersion.WithResource("infrastructureproviders")
	// previewDomainForm is the pattern of the CRD, for an API server that did not check it.
	previewDomainForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?$`)
)

// settings follow the InfrastructureProvider: what an operator changes there takes effect here
// without a restart, unless it belongs to the listener. An object that is missing, or that says
// what cannot be, changes nothing: there is always a limit, and never one of zero.
type settings struct {
	informer cache.SharedIndexInformer
	source   *relist.ListerWatcher
	handled  cache.ResourceEventHandlerRegistration
	defaults limit.Limits
	log      *slog.Logger
	gauge    *prometheus.GaugeVec
	current  atomic.Pointer[snapshot]

	// mu guards what follows; changes are rare.
	mu        sync.Mutex
	listening bool
	changed   []func()
}

// snapshot is what the settings are at one time. It does not change.
type snapshot struct {
	limits limit.Limits
	// instancesPerWorkspace is how many placements the controllers give a workspace.
	instancesPerWorkspace int
	// previewDomain is the domain below which previews are served, with a port if it has one;
	// empty for none.
	previewDomain string
	// previewSession is how long a preview's session lasts at most.
	previewSession time.Duration
	// caBundle is the PEM bundle that verifies the data plane; empty for one that the roots of every
	// system do.
	caBundle []byte
}

// newSettings begins with defaults.
func newSettings(provider dynamic.Interface, defaults limit.Limits, m *record.Metrics, log *slog.Logger) (*settings, error) {
	s := &settings{
		defaults: defaults, log: log,
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sandbar_dataplane_limit", Help: "Limits in force, by their name in the InfrastructureProvider; durations in seconds.",
		}, []string{"limit"}),
	}
	s.informer, s.source = relist.NewInformer(provider, providersResource, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, sandbarv1alpha1.InfrastructureProviderName).String()
	})
	if err := m.Registry.Register(s.gauge); err != nil {
		return nil, fmt.Errorf("registering the metric of the limits: %w", err)
	}
	var err error
	if s.handled, err = s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: s.apply, UpdateFunc: func(_, obj any) { s.apply(obj) },
		DeleteFunc: func(any) { s.log.Warn("the InfrastructureProvider is gone: its last limits stay in force") },
	}); err != nil {
		return nil, fmt.Errorf("watching the InfrastructureProvider: %w", err)
	}
	s.store(&snapshot{limits: defaults, instancesPerWorkspace: sandbarv1alpha1.DefaultInstancesPerWorkspace, previewSession: preview.DefaultSession})
	return s, nil
}

// now returns what the settings are.
func (s *settings) now() *snapshot { return s.current.Load() }

// limits returns the limits in force.
func (s *settings) limits() *limit.Limits { return &s.current.Load().limits }

// onChange has f called after each change. It must not block.
func (s *settings) onChange(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// run follows the object until ctx ends.
func (s *settings) run(ctx context.Context) {
	var every sync.WaitGroup
	every.Go(func() { s.source.Every(ctx, locate.SchemaInterval) })
	s.informer.RunWithContext(ctx)
	every.Wait()
}

// listen returns the limits to listen with: those of the InfrastructureProvider, if it can be
// read in time. From then on the listener's own do not change any more.
func (s *settings) listen(ctx context.Context) *limit.Limits {
	timer := time.NewTimer(settingsWait)
	defer timer.Stop()
	select {
	case <-s.handled.HasSyncedChecker().Done():
		if len(s.informer.GetStore().ListKeys()) == 0 {
			s.log.Warn("there is no InfrastructureProvider: limits have their defaults")
		}
	case <-timer.C:
		s.log.Warn("the InfrastructureProvider could not be read in time: limits have their defaults until it can", "waited", settingsWait)
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening = true
	return s.limits()
}

// apply takes over an InfrastructureProvider.
func (s *settings) apply(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u.GetName() != sandbarv1alpha1.InfrastructureProviderName {
		return
	}
	var provider sandbarv1alpha1.InfrastructureProvider
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &provider); err != nil {
		s.log.Error("the InfrastructureProvider cannot be decoded: its last limits stay in force", "error", err)
		return
	}
	next := &snapshot{limits: s.defaults, previewDomain: provider.Spec.DataPlane.PreviewDomain, previewSession: s.previewSession(&provider), caBundle: provider.Spec.DataPlane.CABundle}
	next.instancesPerWorkspace = sandbarv1alpha1.DefaultInstancesPerWorkspace
	if spec := provider.Spec.Limits; spec != nil {
		next.limits.Override(&spec.DataPlaneLimits)
		if most := spec.InstancesPerWorkspace; most != nil {
			next.instancesPerWorkspace = int(*most)
		}
	}
	if err := next.limits.Validate(); err != nil {
		s.log.Error("the InfrastructureProvider has limits that cannot be: the last ones stay in force", "error", err)
		return
	}
	if next.previewDomain != "" && !previewDomainForm.MatchString(next.previewDomain) {
		s.log.Error("the InfrastructureProvider's previewDomain is no host name: the last one stays in force")
		next.previewDomain = s.now().previewDomain
	}
	s.mu.Lock()
	if s.listening {
		s.keepListening(&next.limits)
	}
	s.store(next)
	changed := s.changed
	s.mu.Unlock()
	for _, f := range changed {
		f()
	}
}

// previewSession is how long the operator lets sessions last; one that cannot be changes nothing.
func (s *settings) previewSession(provider *sandbarv1alpha1.InfrastructureProvider) time.Duration {
	seconds := provider.Spec.DataPlane.PreviewSessionSeconds
	switch at := time.Duration(seconds) * time.Second; {
	case seconds == 0:
		return preview.DefaultSession
	case at < preview.MinSession || at > preview.MaxSession:
		s.log.Error("the InfrastructureProvider's previewSessionSeconds is out of its bounds: the last one stays in force", "seconds", seconds)
		return s.now().previewSession
	default:
		return at
	}
}

// keepListening leaves alone what the listener has been opened with. s.mu is held.
func (s *settings) keepListening(next *limit.Limits) {
	before := s.limits()
	after := *next
	next.HeaderBytes, next.HTTP2Streams = before.HeaderBytes, before.HTTP2Streams
	next.ReadHeaderTimeout, next.IdleTimeout = before.ReadHeaderTimeout, before.IdleTimeout
	kept := next.ByName()
	for name, value := range after.ByName() {
		if kept[name] != value {
			s.log.Warn("a limit takes effect at restart", "limit", name, "now", kept[name], "then", value)
		}
	}
}

// store puts a snapshot in force.
func (s *settings) store(next *snapshot) {
	s.current.Store(next)
	for name, value := range next.limits.ByName() {
		s.gauge.WithLabelValues(name).Set(value)
	}
}
