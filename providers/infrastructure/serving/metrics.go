// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
)

var (
	replicasDesc = prometheus.NewDesc("sandbar_dataplane_replicas",
		"Replicas of the data plane by their state: serving, or why one keeps unused instances from being taken.", []string{"state"}, nil)
	heldDesc = prometheus.NewDesc("sandbar_unused_held",
		"1 while no unused instance is taken, by what is not done (sleep, delete) and cause.", []string{"change", "cause"}, nil)
	sinceDesc = prometheus.NewDesc("sandbar_unused_since_timestamp_seconds",
		"Since when time counts as unused; absent while it does not count.", nil, nil)
	aheadDesc = prometheus.NewDesc("sandbar_clock_ahead_seconds",
		"By how much the controllers' clock is ahead of that of a server (runtime, kcp); less than two seconds may be noise.", []string{"of"}, nil)
)

// stateServing is the state of a replica that renews its Lease in time.
const stateServing = "Serving"

// collector tells of the last verdict.
type collector struct{ replicas *Replicas }

// registerMetrics replaces the collector of a former registration, as tests make them.
func registerMetrics(r *Replicas) error {
	c := collector{r}
	err := metrics.Registry.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		metrics.Registry.Unregister(already.ExistingCollector)
		err = metrics.Registry.Register(c)
	}
	return err
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{replicasDesc, heldDesc, sinceDesc, aheadDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, source := range []inuse.Source{inuse.Runtime, inuse.KCP} {
		if ahead, ok := c.replicas.clock.Ahead(source); ok {
			gauge(aheadDesc, ahead.Seconds(), string(source))
		}
	}
	verdict, ok := c.replicas.Last()
	if !ok {
		return
	}
	gauge(replicasDesc, float64(verdict.Replicas[""]), stateServing)
	for _, state := range []inuse.Cause{inuse.ReplicaClock, inuse.ReplicaLate, inuse.ReplicaSilent} {
		gauge(replicasDesc, float64(verdict.Replicas[state]), string(state))
	}
	// A series that appears with the first trouble has no past for an alert to look at.
	for _, cause := range inuse.Causes {
		holds := func(held bool) float64 {
			if held && verdict.Cause == cause {
				return 1
			}
			return 0
		}
		gauge(heldDesc, holds(!verdict.Sleep), "sleep", string(cause))
		gauge(heldDesc, holds(!verdict.Delete), "delete", string(cause))
	}
	if !verdict.Since.IsZero() {
		gauge(sinceDesc, float64(verdict.Since.UnixMicro())/1e6)
	}
}
