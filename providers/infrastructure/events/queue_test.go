// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

func TestAQueueWritesEventsInTheirOrderAndKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []types.UID
		answer := make(chan struct{})
		queue := NewQueue(newRecorder(func(_ context.Context, _ export.Key, event *corev1.Event) error {
			<-answer // kcp is slow
			got = append(got, event.InvolvedObject.UID)
			return nil
		}))
		ctx, stop := context.WithCancel(t.Context())
		go queue.Run(ctx)
		var want []types.UID
		for i := range 5 {
			uid := types.UID(fmt.Sprint("uid-", i))
			want = append(want, uid)
			queue.Write(ctx, key, about(uid), now) // returns although nothing is written yet
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("written are %v before kcp has answered", got)
		}
		close(answer)
		synctest.Wait()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		stop()
	})
}

func TestAnEventForWhichAQueueHasNoRoomIsCounted(t *testing.T) {
	recorder := newRecorder(func(context.Context, export.Key, *corev1.Event) error { return nil })
	queue := NewQueue(recorder)
	for i := range maxQueued + 3 {
		queue.Write(t.Context(), key, about(types.UID(strconv.Itoa(i))), now)
	}
	counted(t, recorder, dropped, 3)
}

func counted(t *testing.T, recorder *Recorder, outcome string, want float64) {
	t.Helper()
	var m dto.Metric
	if err := recorder.outcomes.WithLabelValues(outcome).Write(&m); err != nil || m.GetCounter().GetValue() != want {
		t.Errorf("%v are counted as %s, want %v (%v)", m.GetCounter().GetValue(), outcome, want, err)
	}
}

// TestAQueueTriesAgainWhileKcpDoesNotAnswer: an event is not lost to a kcp that starts, it is written once, it keeps no other event
// waiting, and it counts once against the limit of its object.
func TestAQueueTriesAgainWhileKcpDoesNotAnswer(t *testing.T) {
	for _, away := range []int{1, tries - 1, tries} {
		synctest.Test(t, func(t *testing.T) {
			names := map[string]int{}
			recorder := newRecorder(func(_ context.Context, _ export.Key, event *corev1.Event) error {
				if names[event.Name]++; event.InvolvedObject.UID == "late" && names[event.Name] <= away {
					return context.DeadlineExceeded
				}
				return nil
			})
			queue := NewQueue(recorder)
			ctx, stop := context.WithCancel(t.Context())
			go queue.Run(ctx)
			queue.Write(ctx, key, about("late"), now)
			queue.Write(ctx, key, about("other"), now)
			synctest.Wait()
			counted(t, recorder, written, 1)
			time.Sleep(tries * pause)
			synctest.Wait()
			missed := max(0, away-tries+1)
			counted(t, recorder, written, float64(2-missed))
			counted(t, recorder, failed, float64(missed))
			if len(names) != 2 {
				t.Errorf("the tries are of the names %v", names)
			}
			stop()
		})
	}
}
