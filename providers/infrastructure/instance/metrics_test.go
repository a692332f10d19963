// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// Clocks that differ make the heartbeat look old, and nothing sleeps: the age says so.
func TestTheAgeOfTheHeartbeatIsToldByTheClockOfTheControllers(t *testing.T) {
	for name, c := range map[string]struct {
		renewed func(now time.Time) *metav1.MicroTime
		want    []float64
	}{
		"one that is old":                       {func(now time.Time) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(-90 * time.Second)} }, []float64{90}},
		"one of a clock that is ahead":          {func(now time.Time) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(time.Minute)} }, []float64{-60}},
		"a Lease without a time says no number": {func(time.Time) *metav1.MicroTime { return nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.DataPlaneLease},
					Spec:       coordinationv1.LeaseSpec{RenewTime: c.renewed(time.Now())},
				}
				out := make(chan prometheus.Metric, 10)
				runtimeMetrics{runtime: fake.NewClientBuilder().WithObjects(lease).Build(), provider: providerIs("")}.Collect(out)
				close(out)
				var got []float64
				for m := range out {
					var value dto.Metric
					if err := m.Write(&value); err != nil {
						t.Fatal(err)
					}
					got = append(got, value.GetGauge().GetValue())
				}
				if len(got) != len(c.want) || len(got) > 0 && got[0] != c.want[0] {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}

// increase() sees nothing of a series that appears with its first event.
func TestWhatAnAlertReadsIsThereBeforeTheFirst(t *testing.T) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				there[f.GetName()+" "+label.GetValue()] = true
			}
		}
	}
	for _, want := range []string{
		"sandbar_instance_lost_total " + outcome.ReasonPlacementLost, "sandbar_instance_lost_total " + outcome.ReasonResourcesLost,
		"sandbar_instance_limit_refusals_total " + outcome.ReasonPlacementsLimit,
	} {
		if !there[want] {
			t.Errorf("no series %s", want)
		}
	}
}
