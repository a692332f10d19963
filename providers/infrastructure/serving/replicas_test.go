// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a runtime cluster with a data plane of one replica, at noon.
type world struct {
	*Replicas
	t      *testing.T
	client client.Client
	time   time.Time
	writes int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, time: noon}
	count := func() { w.writes++ }
	w.client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			count()
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			count()
			return c.Delete(ctx, obj, opts...)
		},
	}).Build()
	w.Replicas = New(w.client, w.client, &inuse.Clock{Local: func() time.Time { return w.time }}, logr.Discard())
	w.renew(placement.DataPlaneLease)
	w.renew(placement.ReplicaLeasePrefix + "a")
	return w
}

// renew has a Lease say that it was renewed now.
func (w *world) renew(name string) {
	w.t.Helper()
	lease := w.lease(name)
	lease.Spec.RenewTime = &metav1.MicroTime{Time: w.time}
	if lease.ResourceVersion != "" {
		w.must(w.client.Update(context.Background(), lease))
		return
	}
	lease.Namespace, lease.Name = placement.SystemNamespace, name
	if name == placement.DataPlaneLease {
		lease.Spec.AcquireTime = &metav1.MicroTime{Time: noon.Add(-time.Hour)}
	} else if name != placement.FormerDataPlaneLease {
		lease.Labels, lease.Spec.HolderIdentity = map[string]string{placement.LabelReplica: name}, &name
	}
	w.must(w.client.Create(context.Background(), lease))
}

func (w *world) lease(name string) *coordinationv1.Lease {
	w.t.Helper()
	lease := &coordinationv1.Lease{}
	err := w.client.Get(context.Background(), client.ObjectKey{Namespace: placement.SystemNamespace, Name: name}, lease)
	w.must(client.IgnoreNotFound(err))
	return lease
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// pass lets time pass in which the named Leases are renewed.
func (w *world) pass(d time.Duration, renewing ...string) {
	w.t.Helper()
	for end := w.time.Add(d); w.time.Before(end); {
		w.time = w.time.Add(min(inuse.BeatInterval, end.Sub(w.time)))
		for _, name := range append(renewing, placement.DataPlaneLease) {
			w.renew(name)
		}
		w.must(w.watch(w.t.Context()))
	}
}

func (w *world) cause() inuse.Cause {
	verdict, _ := w.Last()
	return verdict.Cause
}

// Every controller goes quiet: as long as all is well, it writes nothing.
func TestNothingIsWrittenWhileAllIsWell(t *testing.T) {
	w := newWorld(t)
	w.pass(5*time.Minute, placement.ReplicaLeasePrefix+"a")
	if w.writes != 0 || w.cause() != "" {
		t.Errorf("%d writes, cause %q", w.writes, w.cause())
	}
}

func TestAReplicaThatIsGoneIsForgotten(t *testing.T) {
	w := newWorld(t)
	const a, b = placement.ReplicaLeasePrefix + "a", placement.ReplicaLeasePrefix + "b"
	w.renew(b)
	w.pass(inuse.BeatInterval, a, b)
	w.pass(inuse.GivenUpAfter, a)
	if w.lease(b).Name == "" || w.cause() != inuse.ReplicaSilent || w.writes != 0 {
		t.Errorf("after %v: %+v, cause %q, %d writes", inuse.GivenUpAfter, w.lease(b), w.cause(), w.writes)
	}
	w.pass(2*inuse.BeatInterval, a)
	if w.lease(b).Name != "" || w.lease(a).Name == "" || w.cause() != "" {
		t.Errorf("after that: b %q, a %q, cause %q", w.lease(b).Name, w.lease(a).Name, w.cause())
	}
}

// The deletion names the version that was seen: a replica that has come back keeps its Lease.
func TestAReplicaThatComesBackAtTheLastMomentIsKept(t *testing.T) {
	w := newWorld(t)
	const a = placement.ReplicaLeasePrefix + "a"
	seen := w.lease(a)
	w.time = w.time.Add(time.Second)
	w.renew(a)
	w.must(w.forget(t.Context(), seen))
	if w.lease(a).Name == "" {
		t.Error("it is forgotten")
	}
}

func TestWhileClocksDisagreeUnusedTimeStartsAnew(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		w := newWorld(t)
		w.Clock().Heard(inuse.Runtime, w.time)
		w.pass(time.Minute, placement.ReplicaLeasePrefix+"a")
		w.Clock().Heard(inuse.Runtime, w.time.Add(ahead))
		w.pass(3*time.Minute, placement.ReplicaLeasePrefix+"a")
		if w.cause() != inuse.ClocksDisagree {
			t.Errorf("the cause is %q", w.cause())
		}
		later := w.time
		if ahead > 0 {
			later = w.time.Add(ahead)
		}
		if since := w.lease(placement.DataPlaneLease).Spec.AcquireTime.Time; later.Sub(since).Abs() > anewEvery {
			t.Errorf("API server ahead by %v: time counts since %v, %v before now", ahead, since, later.Sub(since))
		}
		if w.writes > int(3*time.Minute/anewEvery)+1 {
			t.Errorf("%d writes", w.writes)
		}
		w.Clock().Heard(inuse.Runtime, w.time)
		w.pass(time.Minute, placement.ReplicaLeasePrefix+"a")
		since := w.lease(placement.DataPlaneLease).Spec.AcquireTime.Time
		if verdict, _ := w.Last(); verdict.Cause != "" || since.After(w.time) || w.time.Sub(since) > 2*time.Minute {
			t.Errorf("when they agree again: cause %q, since %v before now", verdict.Cause, w.time.Sub(since))
		}
	}
}

func TestAnEarlierVersionIsWaitedForAndItsLeaseDeleted(t *testing.T) {
	w := newWorld(t)
	const a = placement.ReplicaLeasePrefix + "a"
	w.pass(time.Minute, a, placement.FormerDataPlaneLease)
	if w.cause() != inuse.FormerVersion {
		t.Errorf("the cause is %q", w.cause())
	}
	w.pass(inuse.GivenUpAfter+2*inuse.BeatInterval, a)
	if w.cause() != "" || w.lease(placement.FormerDataPlaneLease).Name != "" {
		t.Errorf("after it has ended: cause %q, Lease %q", w.cause(), w.lease(placement.FormerDataPlaneLease).Name)
	}
	if since := w.lease(placement.DataPlaneLease).Spec.AcquireTime.Time; w.time.Sub(since) > time.Minute {
		t.Errorf("time counts since %v before now", w.time.Sub(since))
	}
}

func TestOnlyNewsAreTold(t *testing.T) {
	w := newWorld(t)
	told := func() bool {
		select {
		case <-w.Changed():
			return true
		default:
			return false
		}
	}
	const a = placement.ReplicaLeasePrefix + "a"
	w.pass(time.Minute, a)
	if !told() || told() {
		t.Error("the first verdict is not told once")
	}
	w.pass(time.Minute, a)
	if told() {
		t.Error("the same verdict is told again")
	}
	w.pass(inuse.LateAfter + inuse.BeatInterval)
	if !told() {
		t.Error("a replica that is late is not told")
	}
}

func TestTheMetricsNameTheCause(t *testing.T) {
	w := newWorld(t)
	const a = placement.ReplicaLeasePrefix + "a"
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{w.Replicas})
	value := func(metric string, labels ...string) float64 {
		t.Helper()
		families, err := registry.Gather()
		w.must(err)
		for _, family := range families {
			for _, m := range family.GetMetric() {
				matches := family.GetName() == metric
				for i, label := range m.GetLabel() {
					matches = matches && i < len(labels) && label.GetValue() == labels[i]
				}
				if matches {
					return m.GetGauge().GetValue()
				}
			}
		}
		return -1
	}
	if value("sandbar_unused_held", string(inuse.NoReplica), "sleep") != -1 {
		t.Error("something is told before the first look")
	}
	w.Clock().Heard(inuse.KCP, w.time.Add(-5*time.Second))
	w.pass(time.Minute, a)
	w.pass(inuse.LateAfter + inuse.BeatInterval)
	for _, c := range []struct {
		metric string
		labels []string
		want   float64
	}{
		{"sandbar_dataplane_replicas", []string{"Serving"}, 0},
		{"sandbar_dataplane_replicas", []string{"ReplicaLate"}, 1},
		{"sandbar_unused_held", []string{"ReplicaLate", "sleep"}, 1},
		{"sandbar_unused_held", []string{"ReplicaLate", "delete"}, 1},
		{"sandbar_unused_held", []string{"NoReplica", "sleep"}, 0},
		{"sandbar_unused_since_timestamp_seconds", nil, float64(noon.Add(-time.Hour).Unix())},
		{"sandbar_clock_ahead_seconds", []string{"kcp"}, 5},
	} {
		if got := value(c.metric, c.labels...); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.metric, c.labels, got, c.want)
		}
	}
}

func TestAClusterThatDoesNotAnswerIsNoVerdict(t *testing.T) {
	w := newWorld(t)
	w.live = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return apierrors.NewServiceUnavailable("away")
		},
	}).Build()
	if _, err := w.Look(t.Context()); err == nil {
		t.Error("no error")
	}
}
