// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var endpointSlices = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}

// recorder keeps every status that any instance of any workspace had while the tests ran. It
// watches through the virtual workspace of the export, as the provider does.
type recorder struct {
	mu   sync.Mutex
	seen map[types.UID][]*unstructured.Unstructured

	stop context.CancelFunc
	done sync.WaitGroup
}

func startRecorder() *recorder {
	ctx, stop := context.WithCancel(context.Background())
	r := &recorder{seen: map[types.UID][]*unstructured.Unstructured{}, stop: stop}
	r.done.Go(func() { r.followKinds(ctx) })
	return r
}

// followKinds follows each kind as soon as its Template has a resource. Kinds come and go with
// the tests, so that what fails is tried again; a watch that breaks goes on where it was.
func (r *recorder) followKinds(ctx context.Context) {
	provider := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace))
	following := map[string]bool{}
	_ = poll(ctx, 24*time.Hour, func() error {
		list, err := provider.Resource(templates).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			resource, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "resource")
			if resource == "" || following[resource] {
				continue
			}
			following[resource] = true
			r.done.Go(func() { r.follow(ctx, provider, resource) })
		}
		return errors.New("until the tests end")
	})
}

func (r *recorder) follow(ctx context.Context, provider dynamic.Interface, resource string) {
	gvr := schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: resource}
	_ = poll(ctx, 24*time.Hour, func() error {
		client, err := everywhere(ctx, provider)
		if err != nil {
			return err
		}
		list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			r.add(&list.Items[i])
		}
		return r.watch(ctx, client.Resource(gvr), list.GetResourceVersion())
	})
}

func (r *recorder) watch(ctx context.Context, client dynamic.ResourceInterface, from string) error {
	events, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if obj, ok := event.Object.(*unstructured.Unstructured); ok && obj.GetUID() != "" {
			r.add(obj)
		}
	}
	return errors.New("the watch has ended")
}

// everywhere is a client of all workspaces that have bound the export.
func everywhere(ctx context.Context, provider dynamic.Interface) (dynamic.Interface, error) {
	slice, err := provider.Resource(endpointSlices).Get(ctx, "sandbar.dev", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	endpoints, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
	if len(endpoints) == 0 {
		return nil, errors.New("no endpoint yet")
	}
	url, _, _ := unstructured.NestedString(endpoints[0].(map[string]any), "url")
	config := rest.CopyConfig(world.Stack.KCPAdmin(world.Workspace))
	config.Host = url + "/clusters/*"
	return dynamic.NewForConfig(config)
}

func (r *recorder) add(obj *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	history := r.seen[obj.GetUID()]
	if len(history) > 0 && history[len(history)-1].GetResourceVersion() == obj.GetResourceVersion() {
		return
	}
	r.seen[obj.GetUID()] = append(history, obj)
}

// phases are those that an instance had, in order and without repetition.
func (r *recorder) phases(uid types.UID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var phases []string
	for _, obj := range r.seen[uid] {
		if phase := recordOf(obj).phase; phase != "" {
			phases = append(phases, phase)
		}
	}
	return slices.Compact(phases)
}

// count tells how many statuses of an instance were so.
func (r *recorder) count(uid types.UID, is func(*record) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, obj := range r.seen[uid] {
		if is(recordOf(obj)) {
			n++
		}
	}
	return n
}

// check stops recording and returns a line for each status that must not be.
func (r *recorder) check() (wrong []string, statuses, instances int) {
	r.stop()
	r.done.Wait()
	for _, history := range r.seen {
		instances++
		statuses += len(history)
		var before *record
		for _, obj := range history {
			now := recordOf(obj)
			if now.phase == "" {
				continue
			}
			for name, is := range impossible {
				if is(before, now) {
					wrong = append(wrong, fmt.Sprintf("%s: %s %s at generation %d: %v", name, obj.GetKind(), obj.GetName(), obj.GetGeneration(), obj.Object["status"]))
				}
			}
			before = now
		}
	}
	slices.Sort(wrong)
	return wrong, statuses, instances
}
