// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	composingDesc = prometheus.NewDesc("sandbar_canary_composing", "1 if kro composed the provider's own instance at the last look, 0 if not.", nil, nil)
	ageDesc       = prometheus.NewDesc("sandbar_canary_age_seconds", "How long ago kro last composed the provider's own instance.", nil, nil)
	tookDesc      = prometheus.NewDesc("sandbar_canary_latency_seconds", "How long kro took for it then.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Canary) Describe(out chan<- *prometheus.Desc) {
	out <- composingDesc
	out <- ageDesc
	out <- tookDesc
}

// Collect implements prometheus.Collector.
func (c *Canary) Collect(out chan<- prometheus.Metric) {
	s := c.State()
	if !s.Known {
		return
	}
	composing := 0.0
	if s.Composing {
		composing = 1
	}
	out <- prometheus.MustNewConstMetric(composingDesc, prometheus.GaugeValue, composing)
	if !s.Last.IsZero() {
		out <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, c.now().Sub(s.Last).Seconds())
		out <- prometheus.MustNewConstMetric(tookDesc, prometheus.GaugeValue, s.Took.Seconds())
	}
}

// registerMetrics replaces the collector of a former registration, as tests make them.
func registerMetrics(c *Canary) error {
	err := metrics.Registry.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		metrics.Registry.Unregister(already.ExistingCollector)
		err = metrics.Registry.Register(c)
	}
	return err
}
