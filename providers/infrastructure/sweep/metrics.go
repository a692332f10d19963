// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	sweepRoundsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_sweep_rounds_total",
		Help: "Sweeps by result (clean, deleted, skipped, refused).",
	}, []string{"result"})
	sweepOrphans = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sandbar_sweep_orphans",
		Help: "Placements without an instance, as the last complete sweep found them.",
	})
	sweepUnknown = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "sandbar_sweep_unknown_placements",
		Help: "Placements whose instance kcp cannot be asked about, by Template, as the last complete sweep found them. They are kept.",
	}, []string{"template"})
	sweepDeletedTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sandbar_sweep_deleted_total",
		Help: "Placements that sweeps have deleted.",
	})
)

func init() {
	metrics.Registry.MustRegister(sweepRoundsTotal, sweepOrphans, sweepUnknown, sweepDeletedTotal)
	// An alert reads the increase of these: the first event must find them at zero.
	for _, result := range []string{sweepClean, sweepDeleted, sweepSkipped, sweepRefused} {
		sweepRoundsTotal.WithLabelValues(result)
	}
}
