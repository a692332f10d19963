// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
)

func named(name string) Key {
	req := web
	req.Name = name
	return req
}

func of(cluster, name string) Key {
	req := named(name)
	req.Cluster = cluster
	return req
}

func newTestQueue(workers int) (*fairQueue, queue) {
	return newQueue("", workers, workqueue.NewTypedItemExponentialFailureRateLimiter[Key](time.Millisecond, time.Second))
}

func add(f *fairQueue, req Key, mayWait bool) {
	if mayWait {
		f.addPatient(req)
	} else {
		f.Add(req)
	}
}

// drain takes all that is in the queue, one at a time, and names it.
func drain(q queue) (got []string) {
	for q.Len() > 0 {
		req, _ := q.Get()
		got = append(got, req.Name)
		q.Done(req)
	}
	return got
}

// checkEmpty checks that nothing is remembered of what is done.
func checkEmpty(t *testing.T, f *fairQueue) {
	t.Helper()
	if len(f.lines)+len(f.admitted)+len(f.patient)+len(f.ordered.in)+len(f.ordered.patient) != 0 {
		t.Errorf("left behind: %d lines, %d admitted, %v, %v, %v", len(f.lines), len(f.admitted), f.patient, f.ordered.in, f.ordered.patient)
	}
}

func TestWhatChangesOvertakesWhatMerelyExists(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*fairQueue, queue)
		want []string
	}{
		"changes keep their order": {
			add:  func(f *fairQueue, _ queue) { add(f, named("a"), false); add(f, named("b"), false) },
			want: []string{"a", "b"},
		},
		"a change goes before what waits": {
			add:  func(f *fairQueue, _ queue) { add(f, named("old"), true); add(f, named("new"), false) },
			want: []string{"new", "old"},
		},
		"what waits overtakes when it changes": {
			add: func(f *fairQueue, _ queue) {
				add(f, named("a"), true)
				add(f, named("b"), true)
				add(f, named("b"), false)
			},
			want: []string{"b", "a"},
		},
		"a change does not fall back": {
			add: func(f *fairQueue, _ queue) {
				add(f, named("waits"), true)
				add(f, named("a"), false)
				add(f, named("a"), true)
			},
			want: []string{"a", "waits"},
		},
		"a retry without a word is a change": {
			add:  func(f *fairQueue, q queue) { add(f, named("old"), true); q.Add(named("retried")) },
			want: []string{"retried", "old"},
		},
		"what is added while it is handled comes again, once": {
			add: func(f *fairQueue, q queue) {
				add(f, named("a"), false)
				req, _ := q.Get()
				add(f, req, true)
				add(f, req, false)
				add(f, named("waits"), true)
				q.Done(req)
			},
			want: []string{"a", "waits"},
		},
	} {
		// With one worker nearly all is held back in the workspace's line, with a hundred nothing.
		for _, workers := range []int{1, 100} {
			t.Run(fmt.Sprintf("%s, %d workers", name, workers), func(t *testing.T) {
				f, q := newTestQueue(workers)
				defer q.ShutDown()
				if workers == 1 { // so that what is added stands in the line
					add(f, named("first"), false)
					first, _ := q.Get()
					if name != "what is added while it is handled comes again, once" {
						test.add(f, q)
						q.Done(first)
					} else {
						q.Done(first)
						test.add(f, q)
					}
				} else {
					test.add(f, q)
				}
				if diff := cmp.Diff(test.want, drain(q)); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
				checkEmpty(t, f)
			})
		}
	}
}

// Before, all workers of a kind could be at work for one workspace, and all of its requests stood
// before another's.
func TestAWorkspaceHasItsShareOfTheWorkersAndNoMore(t *testing.T) {
	const workers = 10
	f, q := newTestQueue(workers)
	defer q.ShutDown()
	for i := range 100 {
		f.Add(of("greedy", strconv.Itoa(i)))
	}
	taken := []Key{}
	for range workers - 1 {
		req, _ := q.Get()
		taken = append(taken, req)
	}
	if f.TypedInterface.Len() != 0 {
		t.Fatal("a workspace that is alone gets the worker that is kept for another")
	}
	f.Add(of("modest", "only"))
	if req, _ := q.Get(); req.Cluster != "modest" {
		t.Fatalf("the worker that is kept went to %v", req)
	}
	// With two workspaces at work, each has half of the workers, as soon as those are free.
	f.Add(of("modest", "second"))
	for _, req := range taken[:6] {
		q.Done(req)
	}
	if req, _ := q.Get(); req.Cluster != "modest" {
		t.Fatalf("after others have ended %v comes before the workspace that has one worker", req)
	}
	if n := f.lines["greedy"].admitted; n > 4 {
		t.Errorf("%d requests of the greedy workspace are admitted beside another's", n)
	}
}

func TestAnObjectThatAlwaysChangesDoesNotKeepItsWorkspacesOthersWaiting(t *testing.T) {
	f, q := newTestQueue(1)
	defer q.ShutDown()
	f.Add(named("restless"))
	f.Add(named("other"))
	for range 2 {
		req, _ := q.Get()
		if req.Name == "other" {
			return
		}
		f.Add(req)
		q.Done(req)
	}
	t.Error("the other one has not had its turn")
}

func TestARequestIsNeverWithTwoWorkersAndNoneIsLost(t *testing.T) {
	const workers, workspaces, names, adds = 7, 5, 6, 4000
	f, q := newTestQueue(workers)
	var busy [workspaces][names]atomic.Bool
	var last [workspaces][names]atomic.Int64 // the number of the last add that was seen
	var added [workspaces][names]atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				req, shutdown := q.Get()
				if shutdown {
					return
				}
				var w, n int
				_, _ = fmt.Sscanf(req.Cluster+" "+req.Name, "%d %d", &w, &n)
				if !busy[w][n].CompareAndSwap(false, true) {
					t.Errorf("%v is with two workers", req)
				}
				last[w][n].Store(added[w][n].Load())
				busy[w][n].Store(false)
				q.Done(req)
			}
		})
	}
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(p), 7))
			for range adds {
				w, n := random.IntN(workspaces), random.IntN(names)
				added[w][n].Add(1)
				add(f, of(strconv.Itoa(w), strconv.Itoa(n)), random.IntN(2) == 0)
			}
		})
	}
	producers.Wait()
	for deadline := time.Now().Add(time.Minute); ; {
		f.mu.Lock()
		left := len(f.lines)
		f.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d workspaces still have requests", left)
		}
		<-time.After(time.Millisecond)
	}
	q.ShutDown()
	all.Wait()
	for w := range workspaces {
		for n := range names {
			if got, want := last[w][n].Load(), added[w][n].Load(); got != want {
				t.Errorf("%d/%d was added %d times and not handled after the %dth", w, n, want, got)
			}
		}
	}
	checkEmpty(t, f)
}

// controller-runtime's priority queue hangs here now and then.
func TestAQueueThatIsShutDownLetsItsWorkersGo(t *testing.T) {
	for range 50 {
		f, q := newTestQueue(10)
		var workers sync.WaitGroup
		for range 10 {
			workers.Go(func() {
				for {
					req, shutdown := q.Get()
					if shutdown {
						return
					}
					q.Done(req)
				}
			})
		}
		var producers sync.WaitGroup
		for i := range 10 {
			producers.Go(func() { add(f, named(strconv.Itoa(i)), i%2 == 0) })
		}
		q.ShutDown()
		producers.Wait()
		workers.Wait()
	}
}
