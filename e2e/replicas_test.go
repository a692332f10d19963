// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestAReplicaThatFailsTakesNothingFromItsUsers: of three data planes one loses the runtime cluster's
// API and still reaches pods, and one is stopped. What is used through them neither sleeps nor is
// deleted, both stop serving by themselves, and the operator reads which it is. When they are back,
// both serve, and what is unused is deleted.
func TestAReplicaThatFailsTakesNothingFromItsUsers(t *testing.T) {
	long(t, "it waits until replicas count as gone, which takes minutes")
	breaks(t)
	writeUseEverySecond(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	gate, err := world.NewGate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	through, err := gate.Kubeconfig("runtime-serve.kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	cut := startReplica(t, "replica-cut", "--runtime-kubeconfig", through)
	stopped := startReplica(t, "replica-stopped")

	deletes := map[string]any{"lifecycle": map[string]any{"deleteAfterUnused": "1m"}, "projectRef": "e2e", "startCommand": "exec node server.mjs"}
	used := map[*instance]*local.Replica{
		tn.sleeper("cut-sleeper"): cut, tn.create(runners, "SandboxRunner", "cut-mortal", deletes): cut,
		tn.sleeper("stopped-sleeper"): stopped, tn.create(runners, "SandboxRunner", "stopped-mortal", deletes): stopped,
	}
	pinned := tn.create(runners, "SandboxRunner", "pinned", deletes)
	for box := range used {
		box.waitReady()
		box.deploy(c, "hello from "+box.name)
	}
	pinned.waitReady()
	pinned.deploy(c, "hello from pinned")
	idle := tn.sleeper("idle")
	idle.waitReady()
	following, leave := context.WithCancel(t.Context())
	defer leave()
	lines := pinned.follow(following, by(c, cut))
	users := map[*instance]*user{}
	for box, replica := range used {
		users[box] = useThrough(t, c, box, replica, true)
	}
	alone := useThrough(t, c, pinned, cut, false)

	began := time.Now()
	gate.Cut()
	if err := syscall.Kill(stopped.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(stopped.PID(), syscall.SIGCONT) })
	eventually(t, "the replica that is cut off is unready", func() error { return wantReady(t, cut, http.StatusServiceUnavailable) })
	eventually(t, "its streams have ended", func() error {
		for range lines {
		}
		return nil
	})
	waitUnusedEnds(t, string(inuse.ReplicaSilent))
	idle.waitCause(t, "Unused") // the replicas have stopped for certain, so what sleeps may sleep
	eventually(t, "twice the lifecycle has passed", func() error {
		if d := time.Since(began); d < 2*time.Minute+inuse.CoverFor(time.Second)+inuse.Margin {
			return fmt.Errorf("%v have", d)
		}
		return nil
	})
	for box, u := range users {
		u.stop()
		wantNeverTaken(t, box)
		if last := time.Unix(0, u.served.Load()).Sub(began); last > inuse.FenceAfter+5*time.Second {
			t.Errorf("%s was served through its failed replica %v after it had failed", box.name, last)
		}
		users[box] = useThrough(t, c, box, used[box], true)
	}
	if alone.stop(); alone.refused.Load() == 0 {
		t.Error("the replica that is cut off refuses nobody")
	}
	wantNeverTaken(t, pinned) // its user was refused, for no fault of theirs

	gate.Join()
	if err := syscall.Kill(stopped.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []*local.Replica{cut, stopped} {
		eventually(t, "the replica is ready again", func() error { return wantReady(t, replica, http.StatusOK) })
	}
	for box, replica := range used {
		box.waitAnswer(by(c, replica), "hello from "+box.name)
	}
	waitUnusedEnds(t, "EveryReplicaRenews")
	waitDeleted(t, pinned) // which nobody uses any more
	for box, u := range users {
		u.stop()
		wantNeverTaken(t, box)
	}

	// One ends in order, one does not: the operator knows that it is gone, and says so.
	before := len(replicaLeases(t))
	if err := cut.Stop(); err != nil {
		t.Error(err)
	}
	if after := len(replicaLeases(t)); after != before-1 {
		t.Errorf("a replica that has ended leaves its Lease: %d, then %d", before, after)
	}
	if err := syscall.Kill(stopped.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitUnusedEnds(t, string(inuse.ReplicaSilent))
	forgetSilentReplicas(t)
	waitUnusedEnds(t, "EveryReplicaRenews")
}

// A provider that is killed and started again takes its own Lease over: nobody waits for the dead one.
func TestAProviderThatIsStartedAgainTakesItsLeaseOver(t *testing.T) {
	breaks(t)
	forgetSilentReplicas(t)
	before := replicaLeases(t)
	if err := errors.Join(world.Kill(), world.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	after := replicaLeases(t)
	if len(before) != 1 || len(after) != 1 || before[0].Name != after[0].Name || *before[0].Spec.HolderIdentity == *after[0].Spec.HolderIdentity {
		t.Errorf("the Leases were %v and are %v", before, after)
	}
	waitUnusedEnds(t, "EveryReplicaRenews")
}

// TestNothingIsTakenWhileAClockOrAVersionIsInDoubt: the runtime cluster's API server, as the controllers
// or a replica see it, has another time, or a replica of an earlier version serves. Nothing sleeps or is
// deleted, also not at a shutdown time that only one clock has reached; then time starts anew.
func TestNothingIsTakenWhileAClockOrAVersionIsInDoubt(t *testing.T) {
	long(t, "it waits for fences and clocks")
	breaks(t)
	tn := newTenant(t, "alice")
	box := tn.create(runners, "SandboxRunner", "unused", map[string]any{
		"projectRef": "e2e", "startCommand": "exec node server.mjs", "lifecycle": map[string]any{"sleepAfterUnused": "30m"},
	})
	box.waitReady()
	gate, err := world.NewGate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	controlThrough(t, gate)

	for name, doubt := range map[string]struct {
		cause inuse.Cause
		begin func() (end func())
	}{
		"the API server is ahead": {inuse.ClocksDisagree, func() func() {
			gate.SetClock(time.Hour)
			return func() { gate.SetClock(0) }
		}},
		"the API server is behind": {inuse.ClocksDisagree, func() func() {
			gate.SetClock(-time.Hour)
			return func() { gate.SetClock(0) }
		}},
		"a replica of an earlier version serves": {inuse.FormerVersion, func() func() {
			leases := leaseClient()
			former := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: placement.FormerDataPlaneLease}}
			former.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			if _, err := leases.Create(t.Context(), former, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			return func() {
				if err := leases.Delete(context.Background(), former.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			end := doubt.begin()
			defer func() { end() }()
			waitUnusedEnds(t, string(doubt.cause))
			for range 20 { // of which each makes the controllers look
				if err := box.ageUse(t); err != nil {
					t.Fatal(err)
				}
			}
			box.wantNoCause(t)
			eventually(t, "unused time starts anew", func() error {
				since := sharedLease(t).Spec.AcquireTime
				if since == nil || time.Since(since.Time) > time.Minute {
					return fmt.Errorf("it counts since %v", since)
				}
				return nil
			})
			end()
			end = func() {}
			waitUnusedEnds(t, "EveryReplicaRenews")
			box.wantNoCause(t)
		})
	}
	t.Run("a shutdown time that one clock has reached", func(t *testing.T) {
		gate.SetClock(-time.Hour)
		defer gate.SetClock(0)
		waitUnusedEnds(t, string(inuse.ClocksDisagree))
		soon := time.Now().Add(5 * time.Second).UTC()
		mortal := tn.create(runners, "SandboxRunner", "mortal", map[string]any{
			"projectRef": "e2e", "startCommand": "exec node server.mjs",
			"lifecycle": map[string]any{"shutdownTime": soon.Format(time.RFC3339), "shutdownPolicy": "Delete"},
		})
		mortal.waitReady()
		<-time.After(time.Until(soon)) // the clock is what is tested
		mortal.patch(t, map[string]any{"startCommand": "exec node another.mjs"})
		if _, err := mortal.get(); err != nil || time.Now().Before(soon) {
			t.Errorf("it is gone: %v", err)
		}
		gate.SetClock(0)
		waitUnusedEnds(t, "EveryReplicaRenews")
		mortal.patch(t, map[string]any{"startCommand": "exec node other.mjs"})
		waitDeleted(t, mortal)
	})
	eventually(t, "what is unused sleeps when nothing is in doubt", func() error {
		return errors.Join(box.suspended(t, true), box.ageUse(t))
	})
}

// controlThrough has the controllers come to the runtime cluster through a gate for the time of a test.
func controlThrough(t *testing.T, gate *local.Gate) {
	t.Helper()
	const name = "runtime-controllers.kubeconfig"
	file := filepath.Join(world.Dir, name)
	straight, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path, err := gate.Kubeconfig(name)
	if err != nil {
		t.Fatal(err)
	}
	through, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := func(kubeconfig []byte) error {
		return errors.Join(os.WriteFile(file, kubeconfig, 0o600), world.Kill(), world.Start(context.Background()))
	}
	if err := begin(through); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := begin(straight); err != nil {
			t.Errorf("starting the provider again: %v", err)
		}
	})
}

// startReplica starts another data plane for the time of a test.
func startReplica(t *testing.T, name string, args ...string) *local.Replica {
	t.Helper()
	replica, err := world.StartReplicaAs(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(replica.PID(), syscall.SIGCONT)
		if err := replica.Stop(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("stopping %s: %v", name, err)
		}
	})
	return replica
}

// by is the caller at a replica.
func by(c *caller, replica *local.Replica) *caller {
	return &caller{t: c.t, url: replica.URL, token: c.token, client: c.client}
}

// user calls an instance all along.
type user struct {
	// served is when the replica answered last, in nanoseconds, and refused how often it did not.
	served, refused atomic.Int64
	stop            func()
}

// useThrough calls an instance twice a second through a replica; where that refuses, as a load balancer
// does, through the provider's own data plane, if it may. That must always answer.
func useThrough(t *testing.T, c *caller, box *instance, replica *local.Replica, balanced bool) *user {
	ctx, cancel := context.WithCancel(t.Context())
	u, done := &user{}, make(chan struct{})
	path := box.base() + "/proxy/version"
	go func() {
		defer close(done)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			first, giveUp := context.WithTimeout(ctx, time.Second)
			_, err := by(c, replica).probe(first, path)
			giveUp()
			if err == nil {
				u.served.Store(time.Now().UnixNano())
				continue
			}
			u.refused.Add(1)
			if !balanced {
				continue
			}
			if _, err := c.probe(ctx, path); err != nil && ctx.Err() == nil {
				t.Errorf("using %s: %v", box.name, err)
			}
		}
	}()
	u.stop = func() { cancel(); <-done }
	t.Cleanup(u.stop)
	return u
}

func wantReady(t *testing.T, replica *local.Replica, want int) error {
	code, says, err := replica.Ready(t.Context())
	if err == nil && code != want {
		err = fmt.Errorf("it answers %d: %s", code, says)
	}
	return err
}

// wantNeverTaken checks that an instance is there and has never been asleep.
func wantNeverTaken(t *testing.T, box *instance) {
	t.Helper()
	if _, err := box.get(); err != nil {
		t.Errorf("%s: %v", box.name, err)
	}
	if n := recorded.count(box.id.UID, func(r *record) bool {
		return r.reason(sandbarv1alpha1.InstanceSuspendedCondition) == "Unused" || r.phase == "Deleting"
	}); n > 0 {
		t.Errorf("%s was taken from its user: %v", box.name, recorded.phases(box.id.UID))
	}
}

// waitUnusedEnds waits until the provider gives a reason for putting unused instances to sleep, or not.
func waitUnusedEnds(t *testing.T, reason string) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(providers)
	eventually(t, "UnusedEnds has the reason "+reason, func() error {
		provider, err := client.Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := condition(provider, sandbarv1alpha1.ProviderUnusedEnds)
		if got == nil || got["reason"] != reason {
			return fmt.Errorf("it is %v", got)
		}
		silent := strings.Contains(reason, "Replica") && got["status"] == "False"
		if message, _ := got["message"].(string); silent && !strings.Contains(message, hostname(t)+"_") {
			return fmt.Errorf("it names no replica: %s", message)
		}
		return nil
	})
}

func leaseClient() typedcoordinationv1.LeaseInterface {
	return kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoordinationV1().Leases(placement.SystemNamespace)
}

func replicaLeases(t *testing.T) []coordinationv1.Lease {
	t.Helper()
	list, err := leaseClient().List(t.Context(), metav1.ListOptions{LabelSelector: placement.LabelReplica})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func sharedLease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease, err := leaseClient().Get(t.Context(), placement.DataPlaneLease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// forgetSilentReplicas does what the runbook says of replicas that are known to be gone.
func forgetSilentReplicas(t *testing.T) {
	t.Helper()
	for _, lease := range replicaLeases(t) {
		if time.Since(lease.Spec.RenewTime.Time) < inuse.LateAfter {
			continue
		}
		if err := leaseClient().Delete(t.Context(), lease.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}
