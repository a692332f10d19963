// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	// chaosPatience bounds one change of one instance, on a machine that is busy and whose provider is killed
	// again and again before its turn comes.
	chaosPatience = 5 * time.Minute
)

// TestLifecycleUnderChaos kills the provider at random times while twenty instances go through
// fifty cycles: suspended and resumed by their tenant, or put to sleep and woken by the callers
// that call all of them all along. In the end every instance is what it should be, none has
// ever answered for another, and when all are deleted nothing is left over, in the clusters or in
// the provider's process.
func TestLifecycleUnderChaos(t *testing.T) {
	long(t, "it kills the provider for minutes")
	breaks(t)
	writeUseEverySecond(t)
	tn := newTenant(t, "alice")
	// The chaos ends with a provider that has started late, so it is compared with a new one.
	if err := errors.Join(world.Kill(), world.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	before := waitRest(t)
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
	kills := killAtRandom(t, theProvider)
	cycleAll(t, boxes, chaosCycles)
	kills.end()
	// What a provider that is killed holds goes with it; this one lives to show what it keeps.
	cycleAll(t, boxes, chaosInstances)
	t.Logf("callers: %s", calling())
	for _, box := range boxes {
		box.waitReady()
		wantWhole(t, box)
	}
	wantPlaced(t, tn.cluster, len(boxes))
	for _, box := range boxes {
		box.delete()
	}
	for _, box := range boxes {
		waitGone(t, box.id)
	}
	wantPlaced(t, tn.cluster, 0)
	wantNothingHeld(t, before)
}

// cycleAll takes instances through so many cycles, several at once: each is suspended in one, asleep
// in its next, and so on.
func cycleAll(t *testing.T, boxes []*instance, n int) {
	var cycles sync.WaitGroup
	for worker := range chaosWorkers {
		cycles.Go(func() {
			for i := worker; i < n; i += chaosWorkers {
				// Workers never share an instance: 4 divides 20.
				if err := cycle(t, boxes[i%chaosInstances], (i+i/chaosInstances)%2 == 1); err != nil {
					t.Errorf("cycle %d: %v", i, err)
				}
			}
		})
	}
	cycles.Wait()
}

// cycle takes an instance's pods away and gives them back.
func cycle(t *testing.T, box *instance, asleep bool) error {
	if asleep {
		return box.nap(t)
	}
	for _, suspended := range []bool{true, false} {
		if err := box.setSuspended(t.Context(), suspended); err != nil {
			return fmt.Errorf("%s with suspended=%v: %w", box.name, suspended, err)
		}
	}
	return nil
}

// setSuspended writes spec.suspended and waits until it is so.
func (i *instance) setSuspended(ctx context.Context, suspended bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"suspended":%v}}`, suspended)
	objects := i.tn.dyn.Resource(i.gvr).Namespace("default")
	if _, err := objects.Patch(ctx, i.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	want := metav1.ConditionFalse
	if suspended {
		want = metav1.ConditionTrue
	}
	return poll(ctx, chaosPatience, func() error {
		obj, err := objects.Get(ctx, i.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := condition(obj, sandbarv1alpha1.InstanceSuspendedCondition); c == nil || c["observedGeneration"] != obj.GetGeneration() {
			return fmt.Errorf("nothing is said of generation %d yet", obj.GetGeneration())
		}
		return conditionError(obj, sandbarv1alpha1.InstanceSuspendedCondition, want)
	})
}

// nap makes an instance unused until it has gone to sleep, of which only the recorder is sure to
// hear, and waits until the crowd, which wakes it, has used it again.
func (i *instance) nap(t *testing.T) error {
	slept := func() int {
		return recorded.count(i.id.UID, func(r *record) bool { return r.reason(sandbarv1alpha1.InstanceSuspendedCondition) == "Unused" })
	}
	before := slept()
	if err := poll(t.Context(), chaosPatience, func() error {
		if slept() > before {
			return nil
		}
		return errors.Join(errors.New("it is awake"), i.ageUse(t))
	}); err != nil {
		return fmt.Errorf("%s, of which no use is known: %w", i.name, err)
	}
	if err := poll(t.Context(), chaosPatience, func() error { return i.used(t) }); err != nil {
		return fmt.Errorf("%s, which is called all along: %w", i.name, err)
	}
	return nil
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

// fewestKills is how often a test must have killed each part to have shown anything.
const fewestKills = 3

// theProvider names the provider among the parts of a stack.
const theProvider = "provider"

// killing is parts that are killed again and again.
type killing struct {
	t     *testing.T
	parts []string
	stop  chan struct{}
	done  chan struct{}

	mu    sync.Mutex
	kills map[string]int
}

// enough reports whether each part was killed often enough.
func (k *killing) enough() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.t.Failed() || !slices.ContainsFunc(k.parts, func(part string) bool { return k.kills[part] < fewestKills })
}

// end leaves all of them running. It fails the test if one was killed too seldom.
func (k *killing) end() {
	k.t.Helper()
	close(k.stop)
	<-k.done
	k.t.Logf("kills: %v", k.kills)
	for _, part := range k.parts {
		if k.kills[part] < fewestKills {
			k.t.Errorf("%s was killed %d times, want %d at least", part, k.kills[part], fewestKills)
		}
	}
}

// killAtRandom kills the provider, or parts of the stack that are named, one at a time, and starts them again, until the result is ended.
func killAtRandom(t *testing.T, parts ...string) *killing {
	k := &killing{t: t, parts: parts, stop: make(chan struct{}), done: make(chan struct{}), kills: map[string]int{}}
	go func() {
		defer close(k.done)
		// A part that took long to start, because the machine is busy, gets as much more time to work in:
		// killed sooner each time than its controllers begin, it would show nothing.
		var starting time.Duration
		for round := 0; ; round++ {
			select {
			case <-k.stop:
				return
			case <-time.After(time.Duration(2000+rand.IntN(6000))*time.Millisecond + starting): // #nosec G404 -- no secret
			}
			part := parts[round%len(parts)]
			began := time.Now()
			if err := killAndStart(t.Context(), part); err != nil {
				t.Errorf("killing %s: %v", part, err)
				return
			}
			starting = time.Since(began)
			k.mu.Lock()
			k.kills[part]++
			k.mu.Unlock()
		}
	}()
	return k
}

// killAndStart kills a part (SIGKILL), and waits until it serves again.
func killAndStart(ctx context.Context, part string) error {
	if part == theProvider {
		return errors.Join(world.Kill(), world.Start(ctx))
	}
	return world.Stack.Restart(ctx, part)
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
	// One that was taken away may take its time to end, beside the one that came for it.
	eventually(t, box.name+" has one pod", func() error {
		if pods := box.pods(t); len(pods) != 1 {
			return fmt.Errorf("it has %q", pods)
		}
		return nil
	})
	c := callAs(t, box.tn.token)
	eventually(t, box.name+" answers", func() error {
		body, err := c.probe(t.Context(), box.base()+"/proxy/")
		if err == nil && body != "I am "+box.name {
			err = fmt.Errorf("it says %q", body)
		}
		return err
	})
}

// wantPlaced checks that there is one placement and one Lease for each instance.
func wantPlaced(t *testing.T, cluster string, instances int) {
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
}

// held is what the provider's process holds.
type held struct{ goroutines, files float64 }

func readHeld(t *testing.T) held {
	t.Helper()
	h := held{counted(t, "go_goroutines"), counted(t, "process_open_fds")}
	if h.goroutines == 0 || h.files == 0 {
		t.Fatalf("nothing is counted: %+v", h)
	}
	return h
}

// waitRest waits until the provider, which starts its kinds one after the other, holds no more
// than it did ten seconds ago.
func waitRest(t *testing.T) (most held) {
	t.Helper()
	var since time.Time
	eventually(t, "the provider is at rest", func() error {
		if now := readHeld(t); now.goroutines > most.goroutines || now.files > most.files {
			most, since = held{max(most.goroutines, now.goroutines), max(most.files, now.files)}, time.Now()
		}
		if rest := time.Since(since); rest < 10*time.Second {
			return fmt.Errorf("it has grown to %+v %v ago", most, rest)
		}
		return nil
	})
	return most
}

// wantNothingHeld checks that the provider, when idle connections have been closed after 90 s,
// holds nothing for callers that have gone, and as much in all as it did before. The margin is for
// what comes and goes at any time, and below one for each instance.
func wantNothingHeld(t *testing.T, before held) {
	t.Helper()
	const margin = chaosInstances / 2
	eventually(t, "nothing is held for callers", func() error {
		metrics, err := world.Metrics(t.Context())
		if err != nil {
			return err
		}
		gauges := map[string]bool{}
		for line := range strings.Lines(metrics) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			gauge, _, _ := strings.Cut(series, "{")
			if gauge != "sandbar_dataplane_in_flight" && gauge != "sandbar_dataplane_held" {
				continue
			}
			gauges[gauge] = true
			if value != "0" {
				return errors.New(strings.TrimSpace(line))
			}
		}
		if len(gauges) != 2 {
			return fmt.Errorf("only %v are counted: a metric has another name", gauges)
		}
		if now := readHeld(t); now.goroutines > before.goroutines+margin || now.files > before.files+margin {
			return fmt.Errorf("it holds %+v and held %+v", now, before)
		}
		return nil
	})
	t.Logf("the provider holds %+v and held %+v", readHeld(t), before)
}
