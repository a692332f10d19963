// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package devsession has workloads of Sandboxes edited live, as tenants' DevSessions say.
//
// In: the DevSessions of all workspaces, the groups that they are about, and what the runtime cluster has of their pods.
// Out: a record in the placement of the group, of which the instance controller makes the objects and the switch, and the status of
// each DevSession. Package pkg/devsession decides what the objects are and when the switch goes on.
//
//	register.go    the kind, and its controller
//	reconciler.go  one look at one session
//	resolve.go     whether there can be one
//	leave.go       how it ends
//	observe.go     what there is of its pods and endpoints
//	status.go      what it says of itself
//	cluster.go     the runtime cluster
//	metrics.go     counts and events
package devsession

import (
	"context"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/tenantkind"
)

// Kind is that of DevSessions.
var Kind = tenantkind.Kind{Kind: builtin.Of(builtin.DevSession), Concurrency: 4}

// Options are what the controller of DevSessions needs in addition to the two clusters.
type Options struct {
	Offers *offer.Offers
	// Groups tell what there is of SandboxGroups, and keep what is noted of sessions.
	Groups *instance.Groups
}

// Sessions are the DevSessions of all tenants. The zero value has none until Register.
type Sessions struct {
	// known are the groups that sessions are about.
	known known

	mu      sync.Mutex
	wake    func(export.Key)
	wakeAll func()
}

// Looked is told of each session of a group after a look at the group.
func (s *Sessions) Looked(group, session export.Key) {
	s.known.set(session, group)
	s.look(session)
}

// GroupChanged has the sessions looked at that are about a group.
func (s *Sessions) GroupChanged(group export.Key) {
	for _, session := range s.known.to(group) {
		s.look(session)
	}
}

// BaselinesChanged has all sessions looked at: a Baseline may admit more, or less.
func (s *Sessions) BaselinesChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wakeAll != nil {
		s.wakeAll()
	}
}

// look has a session looked at. Before there is a controller nothing is lost: all are looked at when it begins.
func (s *Sessions) look(session export.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		s.wake(session)
	}
}

func (s *Sessions) begin(wake func(export.Key), wakeAll func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.wakeAll = wake, wakeAll
}

// known remember which group each session is about. They are safe for concurrent use.
type known struct {
	named export.References

	mu sync.Mutex
	of map[export.Key]export.Key
}

func (k *known) set(session, group export.Key) {
	k.named.Set(session, group)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[export.Key]export.Key{}
	}
	k.of[session] = group
}

func (k *known) drop(session export.Key) {
	k.named.Drop(session)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.of, session)
}

// group is the one that a session is about, if that is known.
func (k *known) group(session export.Key) (export.Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	group, ok := k.of[session]
	return group, ok
}

func (k *known) to(group export.Key) []export.Key { return k.named.To(group) }

// Register adds the controller to the manager of the provider workspace. all are what the groups were given.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, all *Sessions, opts Options) error {
	says := func(context.Context, client.Reader, client.Reader) (any, error) { return nil, nil } //nolint:nilnil // the groups say what the operator does
	return tenantkind.Register(mgr, runtime, opts.Offers, Kind, says,
		func(c *export.Controller) reconcile.TypedReconciler[export.Key] {
			all.begin(func(key export.Key) { c.Wake(key, false) }, c.WakeAll)
			return &reconciler{
				objects: c.Objects, groups: opts.Groups, runtime: cluster{cached: runtime.GetClient(), live: runtime.GetAPIReader()}, now: time.Now,
				known: &all.known, wake: all.look, events: events.NewRecorder(c.Objects.Record, eventsTotal),
			}
		})
}
