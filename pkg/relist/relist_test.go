// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package relist

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pruned is a server with one object, which it shows as its schema has it: Data is missing until the
// schema knows it. Its resource version never changes.
type pruned struct {
	known atomic.Bool
	lists atomic.Int32
	extra atomic.Bool // another object exists
}

func (p *pruned) list(metav1.ListOptions) (runtime.Object, error) {
	p.lists.Add(1)
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	object := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "3"}}
	if p.known.Load() {
		object.Data = map[string]string{"more": "value"}
	}
	list.Items = append(list.Items, object)
	if p.extra.Load() {
		list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b", ResourceVersion: "4"}})
	}
	return list, nil
}

// listOnly is a ListWatch without streamed lists.
type listOnly struct{ *cache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func (p *pruned) listerWatcher() *ListerWatcher {
	return New(listOnly{&cache.ListWatch{
		ListFunc:  p.list,
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}})
}

func TestARenewedInformerListsAgainAndTellsWhatHasGoneMeanwhile(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	synctest.Test(t, func(t *testing.T) {
		server := &pruned{}
		server.extra.Store(true)
		lw := server.listerWatcher()
		informer := cache.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{})
		var deleted atomic.Int32
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { deleted.Add(1) }}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(ended) }()
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("not synced")
		}
		server.known.Store(true)
		server.extra.Store(false)
		lw.Renew()
		lw.Renew() // while it is ending already
		synctest.Wait()
		if obj, _, _ := informer.GetStore().GetByKey("a"); obj == nil {
			t.Error("what it had is gone before it has listed again")
		}
		<-time.After(5 * time.Second) // the bubble's: client-go waits about one
		synctest.Wait()
		obj, _, _ := informer.GetStore().GetByKey("a")
		if got := obj.(*corev1.ConfigMap).Data["more"]; got != "value" {
			t.Errorf("it still has the object as the former schema pruned it: more = %q", got)
		}
		if deleted.Load() != 1 {
			t.Errorf("%d deletions told, want 1", deleted.Load())
		}
		if got := server.lists.Load(); got != 2 {
			t.Errorf("listed %d times, want 2", got)
		}
		cancel()
		<-ended
	})
	goleak.VerifyNone(t, leaks)
}

func TestWithoutRenewalAnInformerKeepsWhatTheFormerSchemaPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &pruned{}
		informer := cache.NewSharedIndexInformer(server.listerWatcher(), &corev1.ConfigMap{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { informer.RunWithContext(ctx); close(ended) }()
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		server.known.Store(true)
		<-time.After(time.Hour)
		obj, _, _ := informer.GetStore().GetByKey("a")
		if len(obj.(*corev1.ConfigMap).Data) != 0 {
			t.Error("the test's server does not behave as one with a schema: the other test could not fail")
		}
		cancel()
		<-ended
	})
}

func TestEveryRenewsUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &pruned{}
		lw := server.listerWatcher()
		informer := cache.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, cache.Indexers{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		go func() { informer.RunWithContext(ctx); ended <- struct{}{} }()
		go func() { lw.Every(ctx, time.Minute); ended <- struct{}{} }()
		<-time.After(3*time.Minute + 30*time.Second)
		if got := server.lists.Load(); got != 4 {
			t.Errorf("listed %d times, want 4", got)
		}
		cancel()
		<-ended
		<-ended
	})
}

func TestAWatchThatIsStoppedLeavesNothingBehind(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	fake := watch.NewFakeWithChanSize(1, false)
	lw := New(&cache.ListWatch{WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return fake, nil }})
	w, err := lw.Watch(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fake.Add(&corev1.ConfigMap{}) // and nobody reads it
	w.Stop()
	w.Stop()
	for range w.ResultChan() {
	}
	lw.Renew()
	goleak.VerifyNone(t, leaks)
	if len(lw.watches) != 0 {
		t.Error("a watch that has ended is remembered")
	}
}
