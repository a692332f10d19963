// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Register adds a Tracker to the manager. The runtime cluster must be part of the same manager, and the clock
// the one that the instance controllers judge by.
func Register(mgr ctrl.Manager, runtime cluster.Cluster, clock *inuse.Clock) (*Tracker, error) {
	t := NewTracker(clock.Earlier, placementsIn(runtime.GetClient()))
	if err := mgr.Add(t); err != nil {
		return nil, fmt.Errorf("adding the rollouts: %w", err)
	}
	return t, registerMetrics(t)
}

// placementsIn names placements from a cache of the runtime cluster.
func placementsIn(reader client.Reader) Placements {
	return func(ctx context.Context, provider, template string) (map[string]bool, error) {
		var list corev1.NamespaceList
		// They are only read, so the cache's objects need not be copied.
		err := reader.List(ctx, &list, client.MatchingLabels{placement.LabelTemplate: template}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing the placements of Template %s: %w", template, err)
		}
		names := make(map[string]bool, len(list.Items))
		for i := range list.Items {
			// Another provider may have a Template of this name.
			ns := &list.Items[i]
			if _, member := placement.MemberOf(ns); !member && ns.DeletionTimestamp == nil && placement.ProviderOf(ns) == provider {
				names[ns.Name] = true
			}
		}
		return names, nil
	}
}

// registerMetrics replaces the collector of a former registration, as tests make them.
func registerMetrics(t *Tracker) error {
	err := metrics.Registry.Register(t)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		metrics.Registry.Unregister(already.ExistingCollector)
		err = metrics.Registry.Register(t)
	}
	return err
}

var (
	instancesDesc = prometheus.NewDesc("sandbar_rollout_instances",
		"Instances by Template and how far the present revision has reached them (updated, updating, outdated, failed).", []string{"template", "state"}, nil)
	pausedDesc = prometheus.NewDesc("sandbar_rollout_paused",
		"1 for a rollout that is paused, by Template and cause (Failed: instances failed, Paused: by the operator).", []string{"template", "cause"}, nil)
)

// Describe implements prometheus.Collector.
func (t *Tracker) Describe(out chan<- *prometheus.Desc) {
	out <- instancesDesc
	out <- pausedDesc
}

// Collect implements prometheus.Collector.
func (t *Tracker) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for template, s := range t.templates {
		if !s.complete {
			continue
		}
		for state, n := range map[string]int{
			"updated": s.snap.Updated, "updating": s.snap.Updating, "outdated": s.snap.Outdated, "failed": s.snap.Failed,
		} {
			out <- prometheus.MustNewConstMetric(instancesDesc, prometheus.GaugeValue, float64(n), template, state)
		}
		for _, cause := range []string{ReasonFailed, ReasonPaused} {
			value := 0.0
			if s.snap.Reason == cause {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(pausedDesc, prometheus.GaugeValue, value, template, cause)
		}
	}
}
