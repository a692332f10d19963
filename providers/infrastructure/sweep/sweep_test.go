// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// sweepWorld is a sweep over placements named by number. kcp says whether each one's instance is there,
// at each look; what it says nothing of is listed.
type sweepWorld struct {
	sweep   *sweep
	runtime client.Client
	kcp     func(look, number int) fate
	failing error
	looks   atomic.Int32
	asked   atomic.Int32
}

func (w *sweepWorld) begin(context.Context) (string, look, error) {
	w.looks.Add(1)
	return fixture.Provider, w, w.failing
}

func (w *sweepWorld) fateOf(ns *corev1.Namespace) fate {
	var number int
	if _, err := fmt.Sscanf(ns.Labels[placement.LabelInstanceUID], "uid-%d", &number); err != nil {
		return unknown
	}
	return w.kcp(int(w.looks.Load()), number)
}

func (w *sweepWorld) listed(ns *corev1.Namespace) bool { return w.fateOf(ns) == alive }

func (w *sweepWorld) ask(_ context.Context, ns *corev1.Namespace) fate {
	w.asked.Add(1)
	return w.fateOf(ns)
}

func uidOf(number int) types.UID { return types.UID(fmt.Sprintf("uid-%d", number)) }

func nthPlacement(number int, change ...func(*corev1.Namespace)) *corev1.Namespace {
	placed := fixture.Placed
	placed.Owner.UID = uidOf(number)
	placed.ID = placed.Owner.Cold()
	ns := place.BuildNamespace(fixture.NewScope().In(placed))
	ns.UID = types.UID("ns-" + ns.Name)
	ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	for _, f := range change {
		f(ns)
	}
	return ns
}

func newSweepWorld(t *testing.T, kcp func(look, number int) fate, placements ...*corev1.Namespace) *sweepWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{}
	for _, ns := range placements {
		objects = append(objects, ns)
	}
	w := &sweepWorld{runtime: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), kcp: kcp}
	w.sweep = &sweep{
		runtime: w.runtime,
		options: Options{}.withDefaults(nil),
		log:     logr.Discard(),
		census:  w,
	}
	return w
}

// left lists the numbers of the placements that are still there.
func (w *sweepWorld) left(t *testing.T) []int {
	t.Helper()
	var list corev1.NamespaceList
	if err := w.runtime.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	numbers := []int{}
	for _, ns := range list.Items {
		var number int
		if _, err := fmt.Sscanf(ns.Labels[placement.LabelInstanceUID], "uid-%d", &number); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers
}

// living says that the instances of these numbers live, and that all others are gone.
func living(numbers ...int) func(int, int) fate {
	return func(_, number int) fate {
		if slices.Contains(numbers, number) {
			return alive
		}
		return gone
	}
}

func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func TestASweepDeletesWhatKcpSaysIsGoneAndNothingElse(t *testing.T) {
	many := func(n int, change ...func(*corev1.Namespace)) (all []*corev1.Namespace) {
		for i := range n {
			all = append(all, nthPlacement(i, change...))
		}
		return all
	}
	in := func(label, value string) func(*corev1.Namespace) {
		return func(ns *corev1.Namespace) { ns.Labels[label] = value }
	}
	for name, test := range map[string]struct {
		placements []*corev1.Namespace
		kcp        func(look, number int) fate
		failing    error
		mayMost    bool
		left       []int
		result     string
	}{
		"all live":    {placements: many(3), kcp: living(0, 1, 2), left: numbers(3), result: sweepClean},
		"one is gone": {placements: many(3), kcp: living(0, 2), left: []int{0, 2}, result: sweepDeleted},
		"one shows at the second look": {
			placements: many(2), left: numbers(2), result: sweepClean,
			kcp: func(look, number int) fate { return living(0, look-1)(look, number) },
		},
		"kcp cannot be asked": {
			placements: many(2), left: numbers(2), result: sweepClean,
			kcp: func(int, int) fate { return unknown },
		},
		"kcp cannot be asked a second time": {
			placements: many(2), left: numbers(2), result: sweepClean,
			kcp: func(look, number int) fate {
				if look == 1 {
					return gone
				}
				return unknown
			},
		},
		"kcp does not say what the export offers": {
			placements: many(2), kcp: living(), failing: errors.New("503"), left: numbers(2), result: sweepSkipped,
		},
		"a young placement may be ahead of the list": {
			placements: []*corev1.Namespace{nthPlacement(0, func(ns *corev1.Namespace) { ns.CreationTimestamp = metav1.Time{} })},
			kcp:        living(), left: []int{0}, result: sweepClean,
		},
		"another provider's placement": {
			placements: []*corev1.Namespace{nthPlacement(0, func(ns *corev1.Namespace) { ns.Annotations[placement.AnnotationProvider] = "another" })},
			kcp:        living(), left: []int{0}, result: sweepClean,
		},
		"a namespace whose name is not the computed one": {
			placements: []*corev1.Namespace{nthPlacement(0, func(ns *corev1.Namespace) { ns.Name = "kube-system" })},
			kcp:        living(), left: []int{0}, result: sweepClean,
		},
		"more than half of ten": {placements: many(10), kcp: living(0, 1, 2, 3), left: numbers(10), result: sweepRefused},
		"more than half of ten, allowed": {
			placements: many(10), kcp: living(0, 1, 2, 3), mayMost: true, left: numbers(4), result: sweepDeleted,
		},
		"half of ten": {placements: many(10), kcp: living(0, 1, 2, 3, 4), left: numbers(5), result: sweepDeleted},
		"all of nine": {placements: many(9), kcp: living(), left: []int{}, result: sweepDeleted},
		"most of one Template's, few of all": {
			placements: append(many(10, in(placement.LabelTemplate, "lost")), fromTwenty(20)...),
			kcp:        living(append([]int{0, 1, 2, 3}, upTo(20, 40)...)...), left: append(numbers(10), upTo(20, 40)...), result: sweepRefused,
		},
		"most of one workspace's, few of all, and one of another's": {
			placements: append(many(10), append(fromTwenty(20, elsewhere), nthPlacement(50, elsewhere))...),
			kcp:        living(append([]int{0, 1, 2, 3}, upTo(20, 40)...)...), left: append(numbers(10), upTo(20, 40)...), result: sweepRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Times are set here, in the bubble's clock; a zero one stands for a young placement.
				for _, ns := range test.placements {
					if ns.CreationTimestamp.IsZero() {
						ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-defaultGrace / 2))
					} else {
						ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-defaultGrace - time.Minute))
					}
				}
				w := newSweepWorld(t, test.kcp, test.placements...)
				w.failing = test.failing
				w.sweep.options.MayDeleteMost = test.mayMost
				if got := w.sweep.round(t.Context()); got != test.result {
					t.Errorf("result %q, want %q", got, test.result)
				}
				if diff := cmp.Diff(test.left, w.left(t)); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func upTo(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// fromTwenty are placements with numbers from 20 on.
func fromTwenty(n int, change ...func(*corev1.Namespace)) (all []*corev1.Namespace) {
	for i := range n {
		all = append(all, nthPlacement(20+i, change...))
	}
	return all
}

// elsewhere puts a placement into another workspace.
func elsewhere(ns *corev1.Namespace) {
	madeFor(ns, placement.Owner{Cluster: "elsewhere", UID: types.UID(ns.Labels[placement.LabelOwnerUID])})
}

// madeFor makes a namespace that of another owner's placement.
func madeFor(ns *corev1.Namespace, owner placement.Owner) {
	p := placement.Placed{ID: owner.Cold(), Owner: owner}
	maps.Copy(ns.Labels, p.NamespaceLabels(ns.Labels[placement.LabelTemplate]))
	ns.Name, ns.UID = p.Namespace(), types.UID("ns-"+p.Namespace())
}

func TestPlacementsThatKcpCannotBeAskedAboutAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := nthPlacement(0)
		old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		answer := unknown
		w := newSweepWorld(t, func(int, int) fate { return answer }, old)
		for _, want := range []float64{1, 0} {
			w.sweep.round(t.Context())
			var metric dto.Metric
			_ = sweepUnknown.WithLabelValues("thing").Write(&metric)
			if got := metric.GetGauge().GetValue(); got != want {
				t.Errorf("counted %v, want %v", got, want)
			}
			answer = alive
		}
	})
}

func TestOnlyWhatIsNotListedIsAskedFor(t *testing.T) {
	w := newSweepWorld(t, living(0, 1, 2), nthPlacement(0), nthPlacement(1), nthPlacement(2))
	if got := w.sweep.round(t.Context()); got != sweepClean || w.asked.Load() != 0 {
		t.Errorf("result %q after %d questions", got, w.asked.Load())
	}
}

func TestTheSweepRunsAtTheStartAndAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t, living())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.sweep.Start(ctx) }()
		for want := int32(1); want <= 3; want++ {
			synctest.Wait()
			if got := w.looks.Load(); got != want {
				t.Fatalf("%d looks, want %d", got, want)
			}
			timer := time.NewTimer(defaultInterval)
			<-timer.C
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
