// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var keysTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "sandbar_claim_keys_total",
	Help: "SandboxClaims with an idempotency key, by what it made of them: first (it makes Sandboxes), same (it has those of another claim), refused.",
}, []string{"result"})

func init() {
	metrics.Registry.MustRegister(keysTotal)
	for _, result := range []string{"first", "same", "refused"} {
		keysTotal.WithLabelValues(result)
	}
}
