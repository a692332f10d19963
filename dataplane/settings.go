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
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
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
	handled  cache.ResourceEventHandlerRegistration
	defaults Limits
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
	limits Limits
	// previewDomain is the domain below which previews are served, with a port if it has one;
	// empty for none.
	previewDomain string
}

// newSettings begins with defaults.
func newSettings(provider dynamic.Interface, defaults Limits, m *metrics, log *slog.Logger) (*settings, error) {
	s := &settings{
		defaults: defaults, log: log,
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "sandbar_dataplane_limit", Help: "Limits in force, by their name in the InfrastructureProvider; durations in seconds.",
		}, []string{"limit"}),
		informer: dynamicinformer.NewFilteredDynamicInformer(provider, providersResource, "", 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, sandbarv1alpha1.InfrastructureProviderName).String()
		}).Informer(),
	}
	if err := m.registry.Register(s.gauge); err != nil {
		return nil, fmt.Errorf("registering the metric of the limits: %w", err)
	}
	var err error
	if s.handled, err = s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: s.apply, UpdateFunc: func(_, obj any) { s.apply(obj) },
		DeleteFunc: func(any) { s.log.Warn("the InfrastructureProvider is gone: its last limits stay in force") },
	}); err != nil {
		return nil, fmt.Errorf("watching the InfrastructureProvider: %w", err)
	}
	s.store(&snapshot{limits: defaults})
	return s, nil
}

// now returns what the settings are.
func (s *settings) now() *snapshot { return s.current.Load() }

// limits returns the limits in force.
func (s *settings) limits() *Limits { return &s.current.Load().limits }

// onChange has f called after each change. It must not block.
func (s *settings) onChange(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// run follows the object until ctx ends.
func (s *settings) run(ctx context.Context) { s.informer.RunWithContext(ctx) }

// listen returns the limits to listen with: those of the InfrastructureProvider, if it can be
// read in time. From then on the listener's own do not change any more.
func (s *settings) listen(ctx context.Context) *Limits {
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
	next := &snapshot{limits: s.defaults, previewDomain: provider.Spec.DataPlane.PreviewDomain}
	if spec := provider.Spec.Limits; spec != nil {
		next.limits.override(spec)
	}
	if err := next.limits.validate(); err != nil {
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

// keepListening leaves alone what the listener has been opened with. s.mu is held.
func (s *settings) keepListening(next *Limits) {
	before := s.limits()
	after := *next
	next.HeaderBytes, next.HTTP2Streams = before.HeaderBytes, before.HTTP2Streams
	next.ReadHeaderTimeout, next.IdleTimeout = before.ReadHeaderTimeout, before.IdleTimeout
	kept := next.byName()
	for name, value := range after.byName() {
		if kept[name] != value {
			s.log.Warn("a limit takes effect at restart", "limit", name, "now", kept[name], "then", value)
		}
	}
}

// store puts a snapshot in force.
func (s *settings) store(next *snapshot) {
	s.current.Store(next)
	for name, value := range next.limits.byName() {
		s.gauge.WithLabelValues(name).Set(value)
	}
}

// override takes over what an InfrastructureProvider sets.
func (l *Limits) override(spec *sandbarv1alpha1.DataPlaneLimits) {
	for _, number := range []struct {
		limit *int
		spec  int32
	}{
		{&l.InstanceRequests, spec.InstanceRequests},
		{&l.InstanceStreams, spec.InstanceStreams},
		{&l.InstanceHeld, spec.InstanceHeld},
		{&l.ServerHeld, spec.ServerHeld},
		{&l.InstanceRate, spec.InstanceRate},
		{&l.InstanceBurst, spec.InstanceBurst},
		{&l.WorkspaceRequests, spec.WorkspaceRequests},
		{&l.WorkspaceStreams, spec.WorkspaceStreams},
		{&l.WorkspaceRate, spec.WorkspaceRate},
		{&l.WorkspaceBurst, spec.WorkspaceBurst},
		{&l.DeniedRate, spec.DeniedRate},
		{&l.DeniedBurst, spec.DeniedBurst},
		{&l.CallerQuestions, spec.CallerQuestions},
		{&l.HeaderBytes, spec.HeaderBytes},
		{&l.Connections, spec.Connections},
		{&l.ConnectionsPerAddress, spec.ConnectionsPerAddress},
		{&l.HTTP2Streams, spec.HTTP2Streams},
	} {
		if number.spec != 0 {
			*number.limit = int(number.spec)
		}
	}
	for _, duration := range []struct {
		limit   *time.Duration
		seconds int32
	}{
		{&l.ReadHeaderTimeout, spec.ReadHeaderTimeoutSeconds},
		{&l.IdleTimeout, spec.IdleTimeoutSeconds},
		{&l.StallTimeout, spec.StallTimeoutSeconds},
		{&l.ResponseTimeout, spec.ResponseTimeoutSeconds},
		{&l.StreamIdle, spec.StreamIdleSeconds},
		{&l.StreamDuration, spec.StreamDurationSeconds},
		{&l.KcpTolerance, spec.KcpToleranceSeconds},
		{&l.ActivityInterval, spec.ActivityIntervalSeconds},
	} {
		if duration.seconds != 0 {
			*duration.limit = time.Duration(duration.seconds) * time.Second
		}
	}
	if spec.BodyBytes != 0 {
		l.BodyBytes = spec.BodyBytes
	}
}
