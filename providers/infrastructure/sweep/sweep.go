// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package sweep deletes placements on the runtime cluster whose instance, or set, is gone. It is the last resort behind
// finalizers and events: a tenant may strip a finalizer, and a set may go, while the provider is away.
//
// In: the placements of the runtime cluster, and kcp's own answers about the objects that they stand for (census.go). Out:
// deletions of namespaces, of each of which kcp has said twice that its object is gone. It knows no more of a placement than
// package placement does.
package sweep

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/pause"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// fewPlacements is the number below which a sweep may delete any share of a group's placements.
const fewPlacements = 10

// Results of a sweep, as the metric names them.
const (
	sweepClean   = "clean"
	sweepDeleted = "deleted"
	sweepSkipped = "skipped"
	sweepRefused = "refused"
)

// sweep deletes placements whose instance is gone. It is the last resort behind the finalizer: a
// tenant may strip that while the provider is away.
//
// What a sweep deletes is lost, so it needs proof: kcp was asked for this very object, twice, and said
// each time that it is gone. A placement that kcp cannot be asked about is kept, and counted: its
// Template may be gone by an operator's mistake, its shard may be missing from the endpoint slice, its
// workspace may be unbound.
type sweep struct {
	runtime client.Client
	options Options
	log     logr.Logger
	// census tells of instances; a variable for tests.
	census census
}

// census is what a sweep asks kcp.
type census interface {
	// begin returns the provider's logical cluster and a look at kcp as it is now.
	begin(ctx context.Context) (provider string, look look, err error)
}

// look answers for one round, from live answers.
type look interface {
	// listed reports whether the instance of a placement was in a list of all instances.
	listed(ns *corev1.Namespace) bool
	// ask asks for the one instance.
	ask(ctx context.Context, ns *corev1.Namespace) fate
}

// fate is what kcp says of the instance of a placement.
type fate int

const (
	// unknown: kcp cannot be asked, or says nothing that is sure.
	unknown fate = iota
	alive
	gone
)

// Options are the settings of the sweep. The zero value is fit for use.
type Options struct {
	// KCPConfig reaches kcp with the provider's identity. Its host is replaced by the URLs of the APIExportEndpointSlice.
	// Defaults to the manager's configuration.
	KCPConfig *rest.Config
	// ExportName is the name of the APIExport and of its endpoint slice in the provider workspace. Defaults to "sandbar.dev".
	ExportName string
	// Interval is the time between two sweeps. Defaults to 10 minutes.
	Interval time.Duration
	// Grace is how old a placement must be before a sweep may delete it. Defaults to 2 minutes.
	Grace time.Duration
	// SecondLook is how long after the first look a sweep looks again; only what is missing both times is deleted. Defaults
	// to 30 seconds.
	SecondLook time.Duration
	// MayDeleteMost lets one sweep delete more than half of ten or more placements. Set it for one start, after the log has
	// said that a sweep was refused and you have checked that the instances are gone indeed.
	MayDeleteMost bool
}

const (
	defaultExportName = "sandbar.dev"
	defaultInterval   = 10 * time.Minute
	defaultGrace      = 2 * time.Minute
	defaultSecondLook = 30 * time.Second
)

func (o Options) withDefaults(kcp *rest.Config) Options {
	o.KCPConfig = cmp.Or(o.KCPConfig, kcp)
	o.ExportName = cmp.Or(o.ExportName, defaultExportName)
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	o.SecondLook = cmp.Or(o.SecondLook, defaultSecondLook)
	return o
}

// Register adds the sweep to the manager of the provider workspace. The runtime cluster must be added to the same manager.
func Register(mgr ctrl.Manager, runtime cluster.Cluster, opts Options) error {
	opts = opts.withDefaults(mgr.GetConfig())
	return mgr.Add(&sweep{
		runtime: runtime.GetClient(),
		options: opts,
		log:     mgr.GetLogger().WithName("sweep"),
		census:  &kcpCensus{provider: mgr.GetAPIReader(), config: opts.KCPConfig, exportName: opts.ExportName},
	})
}

// Start implements manager.Runnable: it sweeps at once and then at each interval.
func (s *sweep) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		sweepRoundsTotal.WithLabelValues(s.round(ctx)).Inc()
		_ = pause.For(ctx, s.options.Interval)
	}
	return nil
}

// round looks twice and deletes what was gone both times.
func (s *sweep) round(ctx context.Context) string {
	first, err := s.look(ctx)
	if err != nil {
		s.log.Info("sweep skipped: kcp does not say what the export offers", "cause", err.Error())
		return sweepSkipped
	}
	if len(first.orphans) == 0 {
		first.publish()
		return sweepClean
	}
	if pause.For(ctx, s.options.SecondLook) != nil {
		return sweepSkipped
	}
	second, err := s.look(ctx)
	if err != nil {
		s.log.Info("sweep skipped: kcp does not say what the export offers", "cause", err.Error())
		return sweepSkipped
	}
	for name, ns := range second.orphans {
		if was, ok := first.orphans[name]; !ok || was.UID != ns.UID {
			delete(second.orphans, name)
		}
	}
	second.publish()
	return s.delete(ctx, second)
}

// subject is the object without which a placement has no business to be there: its owner or, while it has
// none, the set that keeps it.
type subject struct {
	// kind is the Template whose kind it is of, or setKind.
	kind  string
	owner placement.Owner
	key   export.Key
}

// setKind stands for the built-in kind that keeps members, which has no Template; no Template can be called so.
var setKind = builtin.Of("SandboxSet").Name

func subjectOf(ns *corev1.Namespace) (subject, bool) {
	if m, ok := placement.MemberOf(ns); ok {
		return subject{
			kind: setKind, owner: placement.Owner{Cluster: m.Origin, UID: m.SetUID}, key: export.Key{Cluster: m.Origin, NamespacedName: m.Set},
		}, true
	}
	p, ok := placement.Of(ns)
	return subject{kind: ns.Labels[placement.LabelTemplate], owner: p.Owner, key: export.Key{Cluster: p.Owner.Cluster, NamespacedName: p.Object}}, ok
}

// findings are what one look found.
type findings struct {
	// placements are all of the provider's; orphans those whose instance is gone, by name.
	placements []corev1.Namespace
	orphans    map[string]corev1.Namespace
	// unknown counts the placements that kcp cannot be asked about, by Template.
	unknown map[string]int
}

// look asks about every placement of this provider. Placements are listed before instances: an
// instance is always there before its placement, so none can be missed that way around.
func (s *sweep) look(ctx context.Context) (findings, error) {
	found := findings{orphans: map[string]corev1.Namespace{}, unknown: map[string]int{}}
	var list corev1.NamespaceList
	if err := s.runtime.List(ctx, &list); err != nil {
		return found, err
	}
	provider, look, err := s.census.begin(ctx)
	if err != nil {
		return found, err
	}
	for _, ns := range list.Items {
		whose, ok := subjectOf(&ns)
		if !ok || placement.ProviderOf(&ns) != provider {
			continue // not a placement, or another provider's
		}
		found.placements = append(found.placements, ns)
		if ns.DeletionTimestamp != nil || time.Since(ns.CreationTimestamp.Time) <= s.options.Grace || look.listed(&ns) {
			continue
		}
		switch look.ask(ctx, &ns) {
		case gone:
			found.orphans[ns.Name] = ns
		case unknown:
			found.unknown[ns.Labels[placement.LabelTemplate]]++
			s.log.Info("keeping a placement whose instance kcp cannot be asked about: is its Template there, its workspace bound, its shard in the endpoint slice?",
				"placement", ns.Name, "template", ns.Labels[placement.LabelTemplate], "cluster", whose.owner.Cluster,
				"workspace", ns.Annotations[placement.AnnotationWorkspacePath])
		case alive:
		}
	}
	return found, nil
}

// publish sets the gauges.
func (f findings) publish() {
	sweepOrphans.Set(float64(len(f.orphans)))
	sweepUnknown.Reset()
	for template, n := range f.unknown {
		sweepUnknown.WithLabelValues(template).Set(float64(n))
	}
}

// delete deletes the orphans, but for those of a group that would lose most of what it has: all
// placements are one, those of each Template and those of each workspace. Whatever makes kcp forget
// many instances at once is more likely a mistake than what their owners wanted.
func (s *sweep) delete(ctx context.Context, found findings) string {
	if len(found.orphans) == 0 {
		return sweepClean
	}
	refused := s.losses(found)
	result := sweepDeleted
	for _, ns := range found.orphans {
		if group := refusedFor(&ns, refused); group != "" {
			result = sweepRefused
			continue
		}
		s.log.Info("deleting a placement whose instance is gone", "placement", ns.Name, "template", ns.Labels[placement.LabelTemplate])
		if err := runtimecluster.Delete(ctx, s.runtime, &ns); err != nil {
			s.log.Error(err, "could not delete a placement", "placement", ns.Name)
			continue
		}
		sweepDeletedTotal.Inc()
	}
	return result
}

// allPlacements is the group of all.
const allPlacements = "all placements"

// groupsOf are the groups of which a placement is one.
func groupsOf(ns *corev1.Namespace) []string {
	whose, ok := subjectOf(ns)
	if !ok {
		return []string{allPlacements}
	}
	return []string{
		allPlacements,
		"Template " + ns.Labels[placement.LabelTemplate],
		"workspace " + whose.owner.Cluster,
	}
}

func refusedFor(ns *corev1.Namespace, refused map[string]bool) string {
	for _, group := range groupsOf(ns) {
		if refused[group] {
			return group
		}
	}
	return ""
}

// losses are the groups of ten or more placements that would lose more than half of them.
func (s *sweep) losses(found findings) map[string]bool {
	refused := map[string]bool{}
	if s.options.MayDeleteMost {
		return refused
	}
	all, lost := map[string]int{}, map[string]int{}
	for i := range found.placements {
		for _, group := range groupsOf(&found.placements[i]) {
			all[group]++
		}
	}
	for _, ns := range found.orphans {
		for _, group := range groupsOf(&ns) {
			lost[group]++
		}
	}
	for group, n := range lost {
		if all[group] >= fewPlacements && n*2 > all[group] {
			refused[group] = true
			s.log.Error(nil, "sweep refused: it would delete more than half of the placements of a group; check that their instances are "+
				"gone, then start once with the option that lets a sweep delete most placements",
				"group", group, "orphans", n, "placements", all[group])
		}
	}
	return refused
}
