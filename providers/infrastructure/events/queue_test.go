// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

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
	for range maxQueued + 3 {
		queue.Write(t.Context(), key, about("uid"), now)
	}
	var m dto.Metric
	if err := recorder.outcomes.WithLabelValues(dropped).Write(&m); err != nil || m.GetCounter().GetValue() != 3 {
		t.Errorf("dropped are %v, want 3 (%v)", m.GetCounter().GetValue(), err)
	}
}
