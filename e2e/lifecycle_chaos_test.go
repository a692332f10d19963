// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	chaosInstances = 20
	chaosCycles    = 50
	// chaosWorkers is how many instances change at once.
	chaosWorkers = 4
	// chaosPatience bounds one change of one instance, on a machine that is busy.
	chaosPatience = 2 * time.Minute
)

// TestLifecycleUnderChaos kills the provider at random times while twenty instances go through
// fifty cycles: suspended and resumed by their tenant, or put to sleep and woken by the callers
// that call all of them all along. In the end every instance is what it should be, none has
// ever answered for another, and nothing is left over.
func TestLifecycleUnderChaos(t *testing.T) {
	writeUseEverySecond(t)
	tn := newTenant(t, "alice")
	boxes := make([]*instance, chaosInstances)
	for i := range boxes {
		name := fmt.Sprintf("box-%02d", i)
		boxes[i] = tn.create(runners, "SandboxRunner", name, map[string]any{
			"projectRef":   "e2e",
			"startCommand": fmt.Sprintf(`exec node -e 'require("http").createServer((q,s)=>s.end("I am %s")).listen(3000)'`, name),
			"lifecycle":    map[string]any{"sleepAfterUnused": "30m"},
		})
	}
	for _, box := range boxes {
		box.waitReady()
	}
	calling := newCrowd(t, tn.token, boxes)
	killing := killAtRandom(t)

	var cycles sync.WaitGroup
	for worker := range chaosWorkers {
		cycles.Go(func() {
			for i := worker; i < chaosCycles; i += chaosWorkers {
				// Workers never share an instance: 4 divides 20.
				if err := cycle(t.Context(), boxes[i%chaosInstances], i/chaosInstances%2 == 1); err != nil {
					t.Errorf("cycle %d: %v", i, err)
				}
			}
		})
	}
	cycles.Wait()
	t.Logf("the provider was killed %d times", killing())
	t.Logf("callers: %s", calling())
	for _, box := range boxes {
		box.waitReady()
		wantWhole(t, box)
	}
	wantNothingLeft(t, tn.cluster, len(boxes))
}

// cycle takes an instance's pods away and gives them back.
func cycle(ctx context.Context, box *instance, asleep bool) error {
	if asleep {
		if err := box.ageUse(ctx); err != nil {
			return err
		}
		return nil // the crowd wakes it, or its call came in between; the end shows which
	}
	for _, suspended := range []bool{true, false} {
		patch := fmt.Appendf(nil, `{"spec":{"suspended":%v}}`, suspended)
		objects := box.tn.dyn.Resource(box.gvr).Namespace("default")
		if _, err := objects.Patch(ctx, box.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("writing suspended=%v of %s: %w", suspended, box.name, err)
		}
		want := metav1.ConditionFalse
		if suspended {
			want = metav1.ConditionTrue
		}
		if err := poll(ctx, chaosPatience, func() error {
			obj, err := objects.Get(ctx, box.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if c := condition(obj, sandbarv1alpha1.InstanceSuspendedCondition); c == nil || c["observedGeneration"] != obj.GetGeneration() {
				return fmt.Errorf("nothing is said of generation %d yet", obj.GetGeneration())
			}
			return conditionError(obj, sandbarv1alpha1.InstanceSuspendedCondition, want)
		}); err != nil {
			return fmt.Errorf("%s with suspended=%v: %w", box.name, suspended, err)
		}
	}
	return nil
}

// ageUse makes an instance unused for an hour, as if it had passed.
func (i *instance) ageUse(ctx context.Context) error {
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(time.Now().Add(-time.Hour))}})
	if err != nil {
		return err
	}
	_, err = kube.CoordinationV1().Leases(i.id.Namespace()).Patch(ctx, placement.ActivityLease, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// newCrowd calls every instance all along. Refusals are what they may be; an answer must be the
// instance's own. The result ends the calls and counts them.
func newCrowd(t *testing.T, token string, boxes []*instance) func() string {
	ctx, cancel := context.WithCancel(t.Context())
	c := callAs(t, token)
	var served, refused atomic.Int64
	var crowd sync.WaitGroup
	for _, box := range boxes {
		crowd.Go(func() {
			ticker := time.NewTicker(500 * time.Millisecond)
			defer ticker.Stop()
			for ctx.Err() == nil {
				body, err := c.probe(ctx, box.base()+"/proxy/")
				switch {
				case err != nil:
					refused.Add(1)
				case body != "I am "+box.name:
					t.Errorf("%s was answered with %q", box.name, body)
				default:
					served.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-ticker.C:
				}
			}
		})
	}
	return func() string {
		cancel()
		crowd.Wait()
		if served.Load() == 0 {
			t.Error("no call was served")
		}
		return fmt.Sprintf("%d served, %d refused", served.Load(), refused.Load())
	}
}

// killAtRandom kills the provider and starts it again, until the result is called, which leaves
// it running and tells how often.
func killAtRandom(t *testing.T) func() int {
	stop, done, kills := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(2000+rand.IntN(6000)) * time.Millisecond): // #nosec G404 -- no secret
			}
			if err := errors.Join(world.Kill(), world.Start(t.Context())); err != nil {
				t.Errorf("killing the provider: %v", err)
				return
			}
			kills++
		}
	}()
	return func() int { close(stop); <-done; return kills }
}

// wantWhole checks that an instance that should run does, in every place that says so.
func wantWhole(t *testing.T, box *instance) {
	t.Helper()
	box.wantNoCause(t)
	obj, err := box.get()
	if err != nil {
		t.Fatal(err)
	}
	if err := conditionError(obj, sandbarv1alpha1.InstanceSuspendedCondition, metav1.ConditionFalse); err != nil {
		t.Errorf("%s: %v", box.name, err)
	}
	if status := obj.Object["status"].(map[string]any); status["suspension"] != nil || status["phase"] != "Ready" {
		t.Errorf("%s has phase %v and suspension %v", box.name, status["phase"], status["suspension"])
	}
	pods, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(box.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Errorf("%s has %d pods, error %v", box.name, len(pods.Items), err)
	}
	c := callAs(t, box.tn.token)
	eventually(t, time.Minute, box.name+" answers", func() error {
		body, err := c.probe(t.Context(), box.base()+"/proxy/")
		if err == nil && body != "I am "+box.name {
			err = fmt.Errorf("it says %q", body)
		}
		return err
	})
}

// wantNothingLeft checks that there is one placement and one Lease for each instance.
func wantNothingLeft(t *testing.T, cluster string, instances int) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	mine := metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + cluster}
	namespaces, err := kube.CoreV1().Namespaces().List(t.Context(), mine)
	if err != nil || len(namespaces.Items) != instances {
		t.Errorf("%d placements, want %d; error %v", len(namespaces.Items), instances, err)
	}
	leases, err := kube.CoordinationV1().Leases(metav1.NamespaceAll).List(t.Context(), mine)
	if err != nil || len(leases.Items) != instances {
		t.Errorf("%d Leases, want %d; error %v", len(leases.Items), instances, err)
	}
	// Callers have gone; what their requests held must be gone too.
	eventually(t, time.Minute, "nothing is held for callers", func() error {
		metrics, err := world.Metrics(t.Context())
		if err != nil {
			return err
		}
		counted := false
		for line := range strings.Lines(metrics) {
			if !strings.HasPrefix(line, "sandbar_dataplane_in_flight{") {
				continue
			}
			counted = true
			if !strings.HasSuffix(strings.TrimSpace(line), " 0") {
				return errors.New(strings.TrimSpace(line))
			}
		}
		if !counted {
			return errors.New("nothing is counted: the metric has another name")
		}
		return nil
	})
}
