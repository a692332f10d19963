// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
)

func named(name string) request {
	req := testRequest
	req.Name = name
	return req
}

func TestWhatChangesOvertakesWhatMerelyExists(t *testing.T) {
	for name, test := range map[string]struct {
		add  func(*lanes, queue)
		want []string
	}{
		"changes keep their order": {
			add:  func(l *lanes, q queue) { l.add(q, named("a"), false); l.add(q, named("b"), false) },
			want: []string{"a", "b"},
		},
		"a change goes before what waits": {
			add:  func(l *lanes, q queue) { l.add(q, named("old"), true); l.add(q, named("new"), false) },
			want: []string{"new", "old"},
		},
		"what waits overtakes when it changes": {
			add: func(l *lanes, q queue) {
				l.add(q, named("a"), true)
				l.add(q, named("b"), true)
				l.add(q, named("b"), false)
			},
			want: []string{"b", "a"},
		},
		"a change does not fall back": {
			add: func(l *lanes, q queue) {
				l.add(q, named("waits"), true)
				l.add(q, named("a"), false)
				l.add(q, named("a"), true)
			},
			want: []string{"a", "waits"},
		},
		"a retry without a word is a change": {
			add:  func(l *lanes, q queue) { l.add(q, named("old"), true); q.Add(named("retried")) },
			want: []string{"retried", "old"},
		},
		"what is added while it is handled comes again, once": {
			add: func(l *lanes, q queue) {
				l.add(q, named("a"), false)
				req, _ := q.Get()
				l.add(q, req, true)
				l.add(q, req, false)
				l.add(q, named("waits"), true)
				q.Done(req)
			},
			want: []string{"a", "waits"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLanes()
			q := l.newQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[request](time.Millisecond, time.Second))
			defer q.ShutDown()
			test.add(l, q)
			var got []string
			for q.Len() > 0 {
				req, _ := q.Get()
				got = append(got, req.Name)
				q.Done(req)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if len(l.patient)+len(l.inRear) != 0 {
				t.Errorf("left behind: %v %v", l.patient, l.inRear)
			}
		})
	}
}

// controller-runtime's priority queue hangs here now and then.
func TestAQueueThatIsShutDownLetsItsWorkersGo(t *testing.T) {
	for range 50 {
		l := newLanes()
		q := l.newQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[request](time.Millisecond, time.Second))
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
			producers.Go(func() { l.add(q, named(strconv.Itoa(i)), i%2 == 0) })
		}
		q.ShutDown()
		producers.Wait()
		workers.Wait()
	}
}
