// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// kept is what a test keeps of a widget.
type kept struct {
	metav1.ObjectMeta
	size int64
}

func keep(u *unstructured.Unstructured) *kept {
	k := &kept{ObjectMeta: metav1.ObjectMeta{Namespace: u.GetNamespace(), Name: u.GetName()}}
	k.size, _, _ = unstructured.NestedInt64(u.Object, "spec", "size")
	return k
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "shop", "name": name},
		"spec": map[string]any{"size": size},
	}}
}

// begin follows the widgets of an API server that answers lists with an error while refusal has one.
func begin(t *testing.T, refusal *atomic.Pointer[apierrors.StatusError], told func(about ...*kept)) (*Follower[*kept], *fake.FakeDynamicClient) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets: "WidgetList"}, widget("a", 1))
	client.PrependReactor("list", "widgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := refusal.Load(); err != nil {
			return true, nil, err
		}
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	f := Start(ctx, &wg, client, Options[*kept]{
		Resource: widgets, Namespace: "shop", Changed: told,
		Keep: keep, Same: func(before, after *kept) bool { return before.size == after.size },
	})
	return f, client
}

func becomes(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 seconds", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestWhatIsRefusedOrNotServedIsToldApartAndTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		refusal *apierrors.StatusError
		want    Knowledge
	}{
		"refused":    {apierrors.NewForbidden(widgets.GroupResource(), "", nil), Denied},
		"not served": {apierrors.NewNotFound(widgets.GroupResource(), ""), Unserved},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := &atomic.Pointer[apierrors.StatusError]{}
			refusal.Store(c.refusal)
			f, _ := begin(t, refusal, func(...*kept) {})
			becomes(t, "the refusal is known", func() bool { _, state := f.Items(); return state == c.want })
			if list, _ := f.Items(); len(list) > 0 {
				t.Errorf("there is %v", list)
			}
			refusal.Store(nil)
			becomes(t, "it is listed once it may be", func() bool {
				list, state := f.Items()
				return state == Known && len(list) == 1 && list[0].Name == "a"
			})
		})
	}
}

func TestAChangeIsToldIfItMatters(t *testing.T) {
	var told atomic.Int32
	var sizes atomic.Pointer[[]int64]
	f, client := begin(t, &atomic.Pointer[apierrors.StatusError]{}, func(about ...*kept) {
		list := []int64{}
		for _, k := range about {
			list = append(list, k.size)
		}
		sizes.Store(&list)
		told.Add(1)
	})
	becomes(t, "what there is, is known", func() bool { _, state := f.Items(); return state == Known })
	update := func(w *unstructured.Unstructured) {
		t.Helper()
		if _, err := client.Resource(widgets).Namespace("shop").Update(t.Context(), w, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	becomes(t, "that it is known is told", func() bool { return told.Load() == 2 })
	before := told.Load()
	same := widget("a", 1)
	same.SetAnnotations(map[string]string{"seen": "yes"})
	update(same)
	update(widget("a", 7))
	becomes(t, "the other size is kept", func() bool { list, _ := f.Items(); return len(list) == 1 && list[0].size == 7 })
	becomes(t, "the other size is told", func() bool { return told.Load() == before+1 })
	if got := *sizes.Load(); !slices.Equal(got, []int64{1, 7}) {
		t.Errorf("it is told of the sizes %v, not of what it was and is", got)
	}
	if err := client.Resource(widgets).Namespace("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the end is told", func() bool { return told.Load() == before+2 })
}

func TestWhatIsNotFollowedIsKnownToBeNothing(t *testing.T) {
	var f *Follower[*kept]
	if list, state := f.Items(); len(list) > 0 || state != Known {
		t.Errorf("%v, %v", list, state)
	}
}
