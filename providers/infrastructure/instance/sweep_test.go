// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// sweepWorld is a sweep over placements named by number; instances says which of them have an
// instance at each look, and fails to say if it has an error.
type sweepWorld struct {
	sweep     *sweep
	runtime   client.Client
	instances func(look int) (numbers []int, err error)
	looks     atomic.Int32
}

func uidOf(number int) types.UID { return types.UID(fmt.Sprintf("uid-%d", number)) }

func placementOf(number int, change ...func(*corev1.Namespace)) *corev1.Namespace {
	s := newScope()
	s.object.SetUID(uidOf(number))
	s.id.UID = uidOf(number)
	ns := buildNamespace(s)
	ns.UID = types.UID("ns-" + ns.Name)
	ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	for _, f := range change {
		f(ns)
	}
	return ns
}

func newSweepWorld(t *testing.T, instances func(look int) ([]int, error), placements ...*corev1.Namespace) *sweepWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kcpapisv1alpha1.AddToScheme, sandbarv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	slice := &kcpapisv1alpha1.APIExportEndpointSlice{}
	slice.Name = defaultExportName
	slice.Annotations = map[string]string{"kcp.io/cluster": testProvider}
	objects := []client.Object{}
	for _, ns := range placements {
		objects = append(objects, ns)
	}
	w := &sweepWorld{
		runtime:   fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		instances: instances,
	}
	w.sweep = &sweep{
		provider: fake.NewClientBuilder().WithScheme(scheme).WithObjects(slice).Build(),
		runtime:  runtimeCluster{client: w.runtime, live: w.runtime},
		options: Options{
			ExportName: defaultExportName, SweepInterval: defaultSweepInterval,
			SweepGrace: defaultSweepGrace, SweepSecondLook: defaultSecondLook,
		},
		log: logr.Discard(),
		instances: func(context.Context) (map[placement.ID]bool, error) {
			numbers, err := w.instances(int(w.looks.Add(1)))
			found := map[placement.ID]bool{}
			for _, number := range numbers {
				found[placement.ID{Cluster: testCluster, UID: uidOf(number)}] = true
			}
			return found, err
		},
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

func TestASweepDeletesWhatHasNoInstanceAndNothingElse(t *testing.T) {
	always := func(numbers ...int) func(int) ([]int, error) {
		return func(int) ([]int, error) { return numbers, nil }
	}
	many := func(n int) (all []*corev1.Namespace) {
		for i := range n {
			all = append(all, placementOf(i))
		}
		return all
	}
	unclear := errors.New("503")
	for name, test := range map[string]struct {
		placements []*corev1.Namespace
		instances  func(int) ([]int, error)
		mayMost    bool
		left       []int
		result     string
	}{
		"all have instances": {
			placements: many(3), instances: always(0, 1, 2), left: []int{0, 1, 2}, result: sweepClean,
		},
		"one has none": {
			placements: many(3), instances: always(0, 2), left: []int{0, 2}, result: sweepDeleted,
		},
		"the instance shows at the second look": {
			placements: many(2), left: []int{0, 1}, result: sweepClean,
			instances: func(look int) ([]int, error) {
				if look == 1 {
					return []int{0}, nil
				}
				return []int{0, 1}, nil
			},
		},
		"the list is not complete": {
			placements: many(2), left: []int{0, 1}, result: sweepSkipped,
			instances: func(int) ([]int, error) { return []int{0}, unclear },
		},
		"the second list is not complete": {
			placements: many(2), left: []int{0, 1}, result: sweepSkipped,
			instances: func(look int) ([]int, error) {
				if look == 1 {
					return []int{0}, nil
				}
				return nil, unclear
			},
		},
		"a young placement may be ahead of the list": {
			placements: []*corev1.Namespace{placementOf(0, func(ns *corev1.Namespace) { ns.CreationTimestamp = metav1.Time{} })},
			instances:  always(), left: []int{0}, result: sweepClean,
		},
		"another provider's placement": {
			placements: []*corev1.Namespace{placementOf(0, func(ns *corev1.Namespace) { ns.Annotations[annotationProvider] = "another" })},
			instances:  always(), left: []int{0}, result: sweepClean,
		},
		"a namespace whose name is not the computed one": {
			placements: []*corev1.Namespace{placementOf(0, func(ns *corev1.Namespace) { ns.Name = "kube-system" })},
			instances:  always(), left: []int{0}, result: sweepClean,
		},
		"a Template's placements after the Template": {
			placements: []*corev1.Namespace{placementOf(0, func(ns *corev1.Namespace) { ns.Labels[placement.LabelTemplate] = "gone" })},
			instances:  always(), left: []int{}, result: sweepDeleted,
		},
		"more than half of ten": {
			placements: many(10), instances: always(0, 1, 2, 3), left: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, result: sweepRefused,
		},
		"more than half of ten, allowed": {
			placements: many(10), instances: always(0, 1, 2, 3), mayMost: true, left: []int{0, 1, 2, 3}, result: sweepDeleted,
		},
		"half of ten": {
			placements: many(10), instances: always(0, 1, 2, 3, 4), left: []int{0, 1, 2, 3, 4}, result: sweepDeleted,
		},
		"all of nine": {
			placements: many(9), instances: always(), left: []int{}, result: sweepDeleted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Times are set here, in the bubble's clock; a zero one stands for a young placement.
				for _, ns := range test.placements {
					if ns.CreationTimestamp.IsZero() {
						ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-defaultSweepGrace / 2))
					} else {
						ns.CreationTimestamp = metav1.NewTime(time.Now().Add(-defaultSweepGrace - time.Minute))
					}
				}
				w := newSweepWorld(t, test.instances, test.placements...)
				w.sweep.options.SweepMayDeleteMost = test.mayMost
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

func TestTheSweepRunsAtTheStartAndAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSweepWorld(t, func(int) ([]int, error) { return nil, nil })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.sweep.Start(ctx) }()
		for want := int32(1); want <= 3; want++ {
			synctest.Wait()
			if got := w.looks.Load(); got != want {
				t.Fatalf("%d looks, want %d", got, want)
			}
			timer := time.NewTimer(defaultSweepInterval)
			<-timer.C
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWithoutAnEndpointSliceNothingIsSwept(t *testing.T) {
	w := newSweepWorld(t, func(int) ([]int, error) { return nil, nil }, placementOf(0))
	w.sweep.options.ExportName = "missing"
	if got := w.sweep.round(t.Context()); got != sweepSkipped {
		t.Errorf("result %q", got)
	}
	if diff := cmp.Diff([]int{0}, w.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
