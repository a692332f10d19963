// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestAWarmStartCostsFourWrites: its tenant's creation, one to the namespace of the member, one of the status that says that
// it is Ready, and then the finalizer. Nothing that lies in its placement is written.
func TestAWarmStartCostsFourWrites(t *testing.T) {
	calm(t)
	tn := setTenant(t, "bob")
	tn.mustTemplate("own", `{template: {spec: `+podAsking("own", small)+`}}`)
	tn.mustSet("warm", `{replicas: 1, templateRef: {name: own}}`)
	tn.waitSet("warm", "has one", hasAvailable(1))
	member := tn.membersOf("warm")[0].Name
	if err := tn.patchSet("warm", `{"spec":{"paused":true}}`); err != nil { // what replaces the member is another matter
		t.Fatal(err)
	}
	tn.waitSet("warm", "is paused", func(s sandbarv1alpha1.SandboxSetStatus) bool { return s.ObservedGeneration == 2 })
	inKCP := writesOf(t, tn.dyn.Resource(sandboxes).Namespace("default"), metav1.ListOptions{})
	namespaces := dynamic.NewForConfigOrDie(world.Stack.Runtime()).Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	onTheNode := writesOf(t, namespaces, metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + tn.cluster})
	before := atRest(t, member)

	box := tn.box("counted", claimsOwn)
	if start := box.started(); start.Type != sandbarv1alpha1.StartWarm || box.id.Namespace() != member {
		t.Fatalf("it started as %+v in %s, and the member is %s", start, box.id.Namespace(), member)
	}
	eventually(t, "it has its finalizer", func() error {
		obj, err := box.get()
		if err == nil && len(obj.GetFinalizers()) != 1 {
			err = fmt.Errorf("it has %v", obj.GetFinalizers())
		}
		return err
	})
	if diff := cmp.Diff(before, atRest(t, member)); diff != "" {
		t.Errorf("in its placement was written:\n%s", diff)
	}
	eventually(t, "an event says how it started", func() error { return box.hasEvent("StartedWarm", "warm") })
	var did []string
	for _, obj := range inKCP() {
		phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
		did = append(did, fmt.Sprintf("phase %q, %d finalizers", phase, len(obj.GetFinalizers())))
	}
	if want := []string{`phase "", 0 finalizers`, `phase "Ready", 0 finalizers`, `phase "Ready", 1 finalizers`}; !slices.Equal(did, want) {
		t.Errorf("the Sandbox was written as %q, want %q", did, want)
	}
	adopted := onTheNode()
	if len(adopted) != 1 || adopted[0].GetLabels()[placement.LabelOwnerUID] != box.ownerUID() {
		t.Errorf("its namespace was written %d times: %v", len(adopted), adopted)
	}
}

// ownerUID is the UID of the tenant's object, which started has replaced by that of the placement.
func (i *instance) ownerUID() string {
	i.tn.t.Helper()
	obj, err := i.get()
	if err != nil {
		i.tn.t.Fatal(err)
	}
	return string(obj.GetUID())
}

// writesOf watches objects from now on; the result returns each version that was written until then.
func writesOf(t *testing.T, objects dynamic.ResourceInterface, which metav1.ListOptions) func() []*unstructured.Unstructured {
	t.Helper()
	list, err := objects.List(t.Context(), which)
	if err != nil {
		t.Fatal(err)
	}
	which.ResourceVersion = list.GetResourceVersion()
	ctx, stop := context.WithCancel(t.Context())
	events, err := objects.Watch(ctx, which)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	var mu sync.Mutex
	var written []*unstructured.Unstructured
	go func() {
		for event := range events.ResultChan() {
			obj, ok := event.Object.(*unstructured.Unstructured)
			mu.Lock()
			switch {
			case ok && event.Type != watch.Error:
				written = append(written, obj)
			case ctx.Err() == nil:
				t.Errorf("the watch failed: %v", event.Object)
			}
			mu.Unlock()
		}
	}()
	t.Cleanup(stop)
	return func() []*unstructured.Unstructured {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(written)
	}
}

// restFor is for how long nothing in a placement must have been written for it to be at rest.
const restFor = 3 * time.Second

// atRest waits until nothing that lies in a namespace of the runtime cluster is being written, and returns the versions of all of
// it. Events do not count, nor does the status of pods.
func atRest(t *testing.T, namespace string) map[string]string {
	t.Helper()
	config := world.Stack.Runtime()
	dyn := dynamic.NewForConfigOrDie(config)
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	all := func() (map[string]string, error) {
		found := map[string]string{}
		for _, group := range kinds {
			gv, err := schema.ParseGroupVersion(group.GroupVersion)
			if err != nil {
				return nil, err
			}
			for _, kind := range group.APIResources {
				if !slices.Contains(kind.Verbs, "list") || kind.Name == "events" {
					continue
				}
				list, err := dyn.Resource(gv.WithResource(kind.Name)).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					return nil, err
				}
				for i := range list.Items {
					found[kind.Kind+" "+list.Items[i].GetName()] = versionBy(&list.Items[i])
				}
			}
		}
		return found, nil
	}
	var last map[string]string
	var since time.Time
	eventually(t, "nothing is written in "+namespace, func() error {
		now, err := all()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(last, now); diff != "" {
			last, since = now, time.Now()
		}
		if rest := time.Since(since); rest < restFor || len(now) < 5 {
			return fmt.Errorf("%d objects, written %v ago", len(now), rest)
		}
		return nil
	})
	return last
}

// versionBy is an object's resource version, and who wrote it last. The status of a pod is its kubelet's, which also writes it
// seconds after the pod is ready: of a pod it is all else.
func versionBy(obj *unstructured.Unstructured) string {
	if obj.GetKind() == "Pod" {
		return fmt.Sprint(obj.GetUID(), obj.GetGeneration(), obj.GetLabels(), obj.GetAnnotations(), obj.Object["spec"])
	}
	newest := metav1.ManagedFieldsEntry{Time: &metav1.Time{}}
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && !entry.Time.Before(newest.Time) {
			newest = entry
		}
	}
	return obj.GetResourceVersion() + " by " + newest.Manager + " " + newest.Subresource
}
