// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/logicalcluster/v3"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// sweepPage is how many instances one answer of kcp holds.
	sweepPage = 500
	// fewPlacements is the number below which a sweep may delete any share of them.
	fewPlacements = 10
)

// Results of a sweep, as the metric names them.
const (
	sweepClean   = "clean"
	sweepDeleted = "deleted"
	sweepSkipped = "skipped"
	sweepRefused = "refused"
)

// sweep deletes placements that no instance stands for any more. It is the last resort behind
// the finalizer: a tenant may strip that, and kcp's caches may miss a deletion. It trusts live,
// complete answers only.
type sweep struct {
	provider client.Reader // of the provider workspace
	runtime  runtimeCluster
	options  Options
	log      logr.Logger
	// instances lists the IDs of all instances of all kinds; a variable for tests.
	instances func(context.Context) (map[placement.ID]bool, error)
}

func newSweep(mgr ctrl.Manager, runtime cluster.Cluster, opts Options) *sweep {
	s := &sweep{
		provider: mgr.GetClient(),
		runtime:  runtimeCluster{client: runtime.GetClient(), live: runtime.GetAPIReader()},
		options:  opts,
		log:      mgr.GetLogger().WithName("sweep"),
	}
	s.instances = s.listInstances
	return s
}

// Start implements manager.Runnable: it sweeps at once and then at each interval.
func (s *sweep) Start(ctx context.Context) error {
	for {
		sweepRoundsTotal.WithLabelValues(s.round(ctx)).Inc()
		if !wait(ctx, s.options.SweepInterval) {
			return nil
		}
	}
}

// wait tells whether the time went by before the end.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// round looks twice and deletes what was missing both times.
func (s *sweep) round(ctx context.Context) string {
	first, _, err := s.orphans(ctx)
	if err != nil {
		s.log.Info("sweep skipped: the instances could not be listed completely", "cause", err.Error())
		return sweepSkipped
	}
	if len(first) == 0 {
		sweepOrphans.Set(0)
		return sweepClean
	}
	if !wait(ctx, s.options.SweepSecondLook) {
		return sweepSkipped
	}
	second, total, err := s.orphans(ctx)
	if err != nil {
		s.log.Info("sweep skipped: the instances could not be listed completely", "cause", err.Error())
		return sweepSkipped
	}
	var confirmed []corev1.Namespace
	for name, ns := range second {
		if was, ok := first[name]; ok && was.UID == ns.UID {
			confirmed = append(confirmed, ns)
		}
	}
	sweepOrphans.Set(float64(len(confirmed)))
	return s.delete(ctx, confirmed, total)
}

func (s *sweep) delete(ctx context.Context, orphans []corev1.Namespace, total int) string {
	if len(orphans) == 0 {
		return sweepClean
	}
	if total >= fewPlacements && len(orphans)*2 > total && !s.options.SweepMayDeleteMost {
		s.log.Error(nil, "sweep refused: it would delete more than half of the placements; check that their instances are "+
			"gone, then start once with the option that lets a sweep delete most placements",
			"orphans", len(orphans), "placements", total)
		return sweepRefused
	}
	for i := range orphans {
		ns := &orphans[i]
		s.log.Info("deleting a placement without an instance", "placement", ns.Name, "template", ns.Labels[placement.LabelTemplate])
		if err := s.runtime.delete(ctx, ns); err != nil {
			s.log.Error(err, "could not delete a placement", "placement", ns.Name)
			continue
		}
		sweepDeletedTotal.Inc()
	}
	return sweepDeleted
}

// orphans returns the placements of this provider that no instance stands for, and how many
// placements there are. Placements are listed before instances: an instance is always there
// before its placement, so none can be missed that way around.
func (s *sweep) orphans(ctx context.Context) (orphans map[string]corev1.Namespace, total int, err error) {
	provider, err := s.providerCluster(ctx)
	if err != nil {
		return nil, 0, err
	}
	var placements corev1.NamespaceList
	if err := s.runtime.client.List(ctx, &placements); err != nil {
		return nil, 0, fmt.Errorf("listing the placements: %w", err)
	}
	instances, err := s.instances(ctx)
	if err != nil {
		return nil, 0, err
	}
	orphans = map[string]corev1.Namespace{}
	for _, ns := range placements.Items {
		id, _, ok := placement.Owner(&ns)
		if !ok || id.Namespace() != ns.Name || ns.Annotations[annotationProvider] != provider {
			continue // not a placement, or another provider's
		}
		total++
		if ns.DeletionTimestamp == nil && !instances[id] && time.Since(ns.CreationTimestamp.Time) > s.options.SweepGrace {
			orphans[ns.Name] = ns
		}
	}
	return orphans, total, nil
}

// errNoSlice means that the endpoint slice is missing, so that it is not known which shards
// hold instances.
var errNoSlice = errors.New("the APIExportEndpointSlice is missing")

func (s *sweep) providerCluster(ctx context.Context) (string, error) {
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	if err := s.provider.Get(ctx, client.ObjectKey{Name: s.options.ExportName}, slice); err != nil {
		return "", errors.Join(errNoSlice, err)
	}
	return logicalcluster.From(slice).String(), nil
}

// listInstances lists all instances of all exported kinds, live, through every endpoint. One
// that does not answer fails the whole list: its instances must not look gone.
func (s *sweep) listInstances(ctx context.Context) (map[placement.ID]bool, error) {
	var templates sandbarv1alpha1.TemplateList
	if err := s.provider.List(ctx, &templates); err != nil {
		return nil, fmt.Errorf("listing the Templates: %w", err)
	}
	urls, err := endpointURLs(ctx, s.provider, s.options.ExportName)
	if err != nil {
		return nil, err
	}
	found := map[placement.ID]bool{}
	for i := range templates.Items {
		k, exported := kindOf(&templates.Items[i])
		if !exported {
			continue // never exported: it cannot have instances
		}
		for _, url := range urls {
			if err := listKind(ctx, s.options.KCPConfig, url, k, found); err != nil {
				return nil, fmt.Errorf("listing %s at %s: %w", k.resource, url, err)
			}
		}
	}
	return found, nil
}

func listKind(ctx context.Context, config *rest.Config, url string, k kind, found map[placement.ID]bool) error {
	e, err := newEndpoint(config, url, k)
	if err != nil {
		return err
	}
	all, err := e.in(everyCluster)
	if err != nil {
		return err
	}
	options := metav1.ListOptions{Limit: sweepPage}
	for {
		page, err := all.List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			item := &page.Items[i]
			found[placement.ID{Cluster: logicalcluster.From(item).String(), UID: item.GetUID()}] = true
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
