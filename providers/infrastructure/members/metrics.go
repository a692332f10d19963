// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var adoptionConflictsTotal = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "sandbar_adoption_conflicts_total",
	Help: "How often a member of a SandboxSet was gone, or another's, when an instance was to adopt it.",
})

func init() { metrics.Registry.MustRegister(adoptionConflictsTotal) }
