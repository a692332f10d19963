// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Results of writes, for the metric.
const (
	writeCreated  = "created"
	writeRepaired = "repaired"
	writeRotated  = "rotated"
	writeFailed   = "failed"
)

// Values of the label key that are no key's name.
const (
	madeUp     = "none"
	unknownKey = "unknown"
)

var writes = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "sandbar_control_token_writes_total",
	Help: "Control tokens of placements that were written: created, repaired after somebody had deleted or edited them, rotated; or failed to be rotated.",
}, []string{"result"})

func init() {
	metrics.Registry.MustRegister(writes)
	for _, result := range []string{writeCreated, writeRepaired, writeRotated, writeFailed} {
		writes.WithLabelValues(result)
	}
}

// collector tells what is in the cache when it is asked.
type collector struct {
	runtime client.Reader
	names   placement.Names
}

var (
	keysDesc   = prometheus.NewDesc("sandbar_control_keys", "Keys of control tokens that the provider has. Without one, a deleted token cannot be made again.", nil, nil)
	tokensDesc = prometheus.NewDesc("sandbar_control_tokens",
		"Placements by the key that made their control token; none for tokens that were made up, unknown for keys that the provider has no more.", []string{"key"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- keysDesc
	out <- tokensDesc
}

// Collect implements prometheus.Collector. The label's values are the keys' names, which are the
// operator's, and few.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, secret := context.Background(), &corev1.Secret{}
	name := types.NamespacedName{Namespace: c.names.SystemNamespace(), Name: placement.ControlKeysSecret}
	if err := c.runtime.Get(ctx, name, secret); client.IgnoreNotFound(err) != nil {
		return
	}
	k, _ := parseKeys(secret.Data)
	out <- prometheus.MustNewConstMetric(keysDesc, prometheus.GaugeValue, float64(len(k)))
	var list corev1.SecretList
	if err := c.runtime.List(ctx, &list, client.HasLabels{placement.LabelInstanceUID}, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	counts := map[string]int{madeUp: 0, unknownKey: 0}
	for i := range k {
		counts[k[i].name] = 0
	}
	for i := range list.Items {
		if list.Items[i].Name != placement.ControlSecret {
			continue
		}
		by, derived := list.Items[i].Annotations[placement.AnnotationControlKey]
		switch {
		case !derived:
			by = madeUp
		case k.find(by) == nil:
			by = unknownKey
		}
		counts[by]++
	}
	for by, count := range counts {
		out <- prometheus.MustNewConstMetric(tokensDesc, prometheus.GaugeValue, float64(count), by)
	}
}

// registerMetrics replaces the collector of a former registration, as tests make them.
func registerMetrics(runtime client.Reader, names placement.Names) error {
	c := collector{runtime: runtime, names: names}
	err := metrics.Registry.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		metrics.Registry.Unregister(already.ExistingCollector)
		err = metrics.Registry.Register(c)
	}
	return err
}
