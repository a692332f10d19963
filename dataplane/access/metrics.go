// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/series"
	"github.com/sandbar-dev/sandbar/tenant"
)

// Questions to kcp, as metrics name them.
const (
	CallGet    = "get"
	callReview = "review"
	CallWho    = "identity"
	CallPatch  = "patch"
)

// authorizationSeconds are the bounds of the histogram.
var authorizationSeconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Metrics count what is asked of kcp, and how long it takes.
type Metrics struct {
	cacheHit, cacheMiss prometheus.Counter
	authorize           *series.Histograms
	kcpCalls            *series.Counters[callLabels]
}

type callLabels struct{ call, outcome string }

func (l callLabels) values() []string { return []string{l.call, l.outcome} }

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	cache := series.NewCounterVec(r, "authorization_cache_total", "Look-ups in the authorization cache.", "result")
	return &Metrics{
		cacheHit: cache.WithLabelValues("hit"), cacheMiss: cache.WithLabelValues("miss"),
		authorize: series.NewHistograms(r, "authorization_duration_seconds",
			"How long kcp took to say whether a caller may; answers from the cache are not in it.", authorizationSeconds, "result"),
		kcpCalls: series.NewCounters(callLabels.values, series.NewCounterVec(r, "kcp_calls_total", "Questions put to kcp as callers.", "call", "outcome")),
	}
}

// Called counts a question that was put to kcp.
func (m *Metrics) Called(call string, outcome tenant.Outcome) {
	m.kcpCalls.Get(callLabels{call, outcome.String()}).Inc()
}

// authorized counts how long kcp took for an answer.
func (m *Metrics) authorized(refused *refusal.Error, took time.Duration) {
	result := "allowed"
	switch {
	case refused == nil:
	case refused.Code >= http.StatusInternalServerError:
		result = "unavailable"
	default:
		result = "refused"
	}
	m.authorize.Observe(result, took, "")
}
