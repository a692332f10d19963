// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// crowd is instances of several kinds in some workspaces, and what is placed of them.
type crowd struct {
	*capacity

	mu        sync.Mutex
	instances map[string][]candidate // by kind
	woken     []string
	limits    *sandbarv1alpha1.Limits
}

func newCrowd(perWorkspace, inAll int32) *crowd {
	c := &crowd{capacity: newCapacity(), instances: map[string][]candidate{}}
	c.limits = &sandbarv1alpha1.Limits{PlacementLimits: sandbarv1alpha1.PlacementLimits{
		InstancesPerWorkspace: &perWorkspace, Placements: &inAll,
	}}
	for _, kind := range []string{"a", "b"} {
		c.follow(kind, func(cluster string) []candidate {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(c.instances[kind]), func(i candidate) bool { return i.owner.Cluster != cluster })
		})
	}
	return c
}

// create makes an instance of an age in seconds.
func (c *crowd) create(kind, cluster, uid string, age int) candidate {
	made := candidate{owner: placement.Owner{Cluster: cluster, UID: types.UID(uid)}, created: time.Unix(int64(-age), 0)}
	made.req = request{Cluster: cluster, NamespacedName: types.NamespacedName{Namespace: "n", Name: uid}}
	made.wake = func() { c.woken = append(c.woken, uid) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[kind] = append(c.instances[kind], made)
	return made
}

func (c *crowd) delete(kind string, gone candidate) {
	c.mu.Lock()
	c.instances[kind] = slices.DeleteFunc(c.instances[kind], func(i candidate) bool { return i.owner == gone.owner })
	c.mu.Unlock()
	c.freed(gone.owner.Cluster)
}

// try asks for a place and says why there is none.
func (c *crowd) try(i candidate) string {
	var full *outcome.FullError
	if err := c.admit(i, c.limits); errors.As(err, &full) {
		return full.Reason
	}
	return ""
}

func namespaceOf(i candidate) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: i.owner.Cold().Namespace(), Labels: placement.Placed{ID: i.owner.Cold(), Owner: i.owner}.NamespaceLabels("t"), Annotations: map[string]string{placement.AnnotationInstanceName: "n"},
	}}
}

func TestTheOldestInstancesOfAllKindsArePlacedAndKeepTheirPlaces(t *testing.T) {
	c := newCrowd(2, 100)
	old, middle, young := c.create("a", "w", "old", 30), c.create("b", "w", "middle", 20), c.create("a", "w", "young", 10)
	if got := c.try(young); got != outcome.ReasonWorkspaceLimit {
		t.Errorf("the youngest comes first and is told %q", got)
	}
	for _, i := range []candidate{middle, old, middle} {
		if got := c.try(i); got != "" {
			t.Errorf("%s is told %q", i.owner.UID, got)
		}
	}
	c.seen(namespaceOf(old))
	c.seen(namespaceOf(old)) // as after a relist
	older := c.create("b", "w", "older", 99)
	for _, i := range []candidate{young, older} {
		if got := c.try(i); got != outcome.ReasonWorkspaceLimit {
			t.Errorf("%s is told %q, and there are two already", i.owner.UID, got)
		}
	}
	other := c.create("a", "elsewhere", "other", 1)
	if got := c.try(other); got != "" {
		t.Errorf("an instance of another workspace is told %q", got)
	}
	// A lower limit takes nobody's place.
	c.limits.InstancesPerWorkspace = new(int32(1))
	for _, i := range []candidate{middle, old} {
		if got := c.try(i); got != "" {
			t.Errorf("after the limit was lowered %s is told %q", i.owner.UID, got)
		}
	}
}

func TestWhoWaitsIsWokenWhenThereIsRoomTheOldestFirst(t *testing.T) {
	c := newCrowd(1, 100)
	first, second, third := c.create("a", "w", "first", 30), c.create("b", "w", "second", 20), c.create("a", "w", "third", 10)
	for _, i := range []candidate{first, third, second} {
		c.try(i)
	}
	c.seen(namespaceOf(first))
	c.delete("a", first)
	if len(c.woken) > 0 {
		t.Fatalf("%v is woken while the placement is still there", c.woken)
	}
	c.gone(namespaceOf(first))
	if !slices.Equal(c.woken, []string{"second"}) {
		t.Fatalf("woken: %v, want the oldest one", c.woken)
	}
	// It is deleted before it takes its place: the next in line comes up.
	c.delete("b", second)
	if !slices.Equal(c.woken, []string{"second", "third"}) {
		t.Fatalf("woken: %v", c.woken)
	}
	if got := c.try(third); got != "" {
		t.Errorf("it is told %q", got)
	}
	c.freed("w")
	if len(c.woken) != 2 {
		t.Errorf("woken although nobody waits: %v", c.woken)
	}
}

func TestAPlaceThatWasReservedForWhatIsGoneIsGivenBack(t *testing.T) {
	c := newCrowd(1, 100)
	first, second := c.create("a", "w", "first", 30), c.create("b", "w", "second", 20)
	c.try(first)
	if got := c.try(second); got != outcome.ReasonWorkspaceLimit {
		t.Fatalf("told %q", got)
	}
	c.delete("a", first) // before its Namespace was made
	if got := c.try(second); got != "" || !slices.Equal(c.woken, []string{"second"}) {
		t.Errorf("told %q, woken %v", got, c.woken)
	}
}

// The reservation counted until something else was admitted in the workspace, which nobody might ever
// try.
func TestAReservationForWhatIsGoneIsGivenBackToOtherWorkspaces(t *testing.T) {
	c := newCrowd(3, 1)
	first, second := c.create("a", "v", "first", 30), c.create("a", "w", "second", 20)
	c.try(first)
	if got := c.try(second); got != outcome.ReasonPlacementsLimit {
		t.Fatalf("told %q", got)
	}
	c.delete("a", first) // before its Namespace was made
	if got := c.try(second); got != "" || !slices.Equal(c.woken, []string{"second"}) {
		t.Errorf("told %q, woken %v", got, c.woken)
	}
}

// A younger instance of the workspace was refused for another reason, and that was all that was
// remembered.
func TestAnInstanceThatWaitsForRoomInAllIsWokenAlthoughAYoungerOneWaitsForItsWorkspace(t *testing.T) {
	c := newCrowd(3, 4)
	placed := []candidate{c.create("a", "v", "v1", 99), c.create("a", "v", "v2", 98), c.create("a", "w", "w1", 97), c.create("a", "w", "w2", 96)}
	for _, i := range placed {
		if got := c.try(i); got != "" {
			t.Fatalf("%s is told %q", i.owner.UID, got)
		}
		c.seen(namespaceOf(i))
	}
	older, younger := c.create("a", "v", "older", 20), c.create("a", "v", "younger", 10)
	if got := c.try(older); got != outcome.ReasonPlacementsLimit {
		t.Fatalf("the older one is told %q", got)
	}
	if got := c.try(younger); got != outcome.ReasonWorkspaceLimit {
		t.Fatalf("the younger one is told %q", got)
	}
	c.delete("a", placed[3])
	c.gone(namespaceOf(placed[3]))
	if !slices.Equal(c.woken, []string{"older"}) {
		t.Errorf("woken: %v", c.woken)
	}
}

// kcp's informers can miss a deletion (kcp#4364): what they go on showing was the oldest instance
// without a place for ever, and kept its place from all others of its workspace.
func TestAnInstanceThatIsGoneThoughTheWatchShowsItTakesNoPlace(t *testing.T) {
	c := newCrowd(1, 100)
	ghost, live := c.create("a", "w", "ghost", 30), c.create("b", "w", "live", 20)
	if got := c.try(live); got != outcome.ReasonWorkspaceLimit || !slices.Equal(c.woken, []string{"ghost"}) {
		t.Fatalf("told %q, woken %v: the one that comes first has to be looked at", got, c.woken)
	}
	c.lost("b", ghost.req) // another kind's
	if got := c.try(live); got != outcome.ReasonWorkspaceLimit {
		t.Fatalf("told %q", got)
	}
	c.lost("a", ghost.req)
	if !slices.Contains(c.woken, "live") {
		t.Errorf("woken: %v", c.woken)
	}
	if got := c.try(live); got != "" {
		t.Errorf("told %q", got)
	}
	c.seen(namespaceOf(live))
	c.delete("b", live)
	c.gone(namespaceOf(live))
	// What kcp has after all counts again; what the watch does not show any more is forgotten.
	if got := c.try(ghost); got != "" {
		t.Errorf("what is back is told %q", got)
	}
	if got := c.try(c.create("b", "w", "another", 1)); got != outcome.ReasonWorkspaceLimit {
		t.Errorf("beside what is back another one is told %q", got)
	}
	c.lost("a", ghost.req)
	c.delete("a", ghost)
	if len(c.ghosts) > 0 || len(c.reserved) > 0 {
		t.Errorf("left: %v, %v", c.ghosts, c.reserved)
	}
}

func TestAllWorkspacesTogetherAreBounded(t *testing.T) {
	c := newCrowd(10, 2)
	one, two, three, four := c.create("a", "v", "one", 4), c.create("a", "w", "two", 3), c.create("a", "x", "three", 2), c.create("a", "y", "four", 1)
	c.try(one)
	c.try(two)
	for _, i := range []candidate{four, three} {
		if got := c.try(i); got != outcome.ReasonPlacementsLimit {
			t.Errorf("%s is told %q", i.owner.UID, got)
		}
	}
	c.seen(namespaceOf(one))
	c.delete("a", one)
	c.gone(namespaceOf(one))
	if !slices.Equal(c.woken, []string{"three"}) {
		t.Errorf("woken: %v, want the oldest of all workspaces", c.woken)
	}
}

func TestALimitOfZeroPlacesNothingNew(t *testing.T) {
	c := newCrowd(0, 100)
	if got := c.try(c.create("a", "w", "one", 1)); got != outcome.ReasonWorkspaceLimit {
		t.Errorf("told %q", got)
	}
	if err := newCapacity().admit(candidate{owner: placement.Owner{Cluster: "w", UID: "u"}}, nil); err != nil {
		t.Errorf("without limits of the operator's: %v", err)
	}
}

// Concurrent reconciles of several kinds, a cache that lags behind, and deletions in between: never
// more than the limit, and in the end exactly the limit.
func TestNoRaceLetsMoreThrough(t *testing.T) {
	const limit, instances = 20, 60
	c := newCrowd(limit, 1000)
	var all []candidate
	for i := range instances {
		all = append(all, c.create([]string{"a", "b"}[i%2], "w", fmt.Sprintf("i-%02d", i), instances-i))
	}
	var mu sync.Mutex
	admitted := map[int]bool{}
	var wg sync.WaitGroup
	for i := range all {
		for range 3 {
			wg.Go(func() {
				if c.try(all[i]) == "" {
					mu.Lock()
					admitted[i] = true
					mu.Unlock()
					c.seen(namespaceOf(all[i]))
				}
			})
		}
	}
	wg.Wait()
	if len(admitted) != limit {
		t.Errorf("%d are placed, want %d", len(admitted), limit)
	}
	for i := range admitted {
		if i >= limit {
			t.Errorf("%s is placed before an older one", all[i].owner.UID)
		}
	}
}

func TestWhatIsNoPlacementIsNotCounted(t *testing.T) {
	c := newCapacity()
	for _, ns := range []*corev1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}},
		{ObjectMeta: metav1.ObjectMeta{Name: placement.ID{Origin: "w", UID: "u"}.Namespace()}},
	} {
		c.seen(ns)
		c.gone(ns)
	}
	if c.total != 0 || len(c.placed) != 0 {
		t.Errorf("counted: %d, %v", c.total, c.placed)
	}
}

func TestAnInstanceWithoutAPlaceSaysWhatToDoAndMakesNothing(t *testing.T) {
	w := newWorld(t)
	w.settings.Infrastructure = w.settings.Infrastructure.DeepCopy()
	w.settings.Infrastructure.Limits = &sandbarv1alpha1.Limits{PlacementLimits: sandbarv1alpha1.PlacementLimits{InstancesPerWorkspace: new(int32(0))}}
	w.settle()
	status, err := outcome.ReadStatus(w.inKCP)
	if err != nil {
		t.Fatal(err)
	}
	c := status.Conditions[0]
	if status.Phase != sandbarv1alpha1.InstancePendingCapacity || c.Type != sandbarv1alpha1.InstancePlaced || c.Reason != outcome.ReasonWorkspaceLimit {
		t.Errorf("phase %s, %+v", status.Phase, c)
	}
	for _, word := range []string{"may have 0 instances", "delete one", "spec.limits.instancesPerWorkspace"} {
		if !strings.Contains(c.Message, word) {
			t.Errorf("the message %q lacks %q", c.Message, word)
		}
	}
	var namespaces corev1.NamespaceList
	if err := w.runtime.List(t.Context(), &namespaces); err != nil || len(namespaces.Items) > 0 {
		t.Errorf("there are namespaces: %v, %v", namespaces.Items, err)
	}
	if len(w.inKCP.GetFinalizers()) > 0 {
		t.Errorf("it has finalizers: %v", w.inKCP.GetFinalizers())
	}
	w.settings.Infrastructure.Limits.InstancesPerWorkspace = nil
	w.settle()
	if status, _ := outcome.ReadStatus(w.inKCP); status.Conditions[0].Reason != outcome.ReasonPlaced {
		t.Errorf("after the limit was raised: %+v", status.Conditions[0])
	}
}

// Another provider on the runtime cluster must not use up the places that this one's limits give.
func TestPlacementsOfAnotherProviderTakeNoPlace(t *testing.T) {
	of := func(provider string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{placement.AnnotationProvider: provider}}}
	}
	for name, tc := range map[string]struct {
		provider func(context.Context) (string, error)
		obj      any
		counts   bool
	}{
		"one of this provider":             {providerIs("this"), of("this"), true},
		"one of another provider":          {providerIs("this"), of("another"), false},
		"while the provider is not known":  {providerIs(""), of("another"), true},
		"while the workspace is not there": {func(context.Context) (string, error) { return "", errors.New("away") }, of("another"), true},
		"one that is gone, and was unseen": {providerIs("this"), struct{}{}, true},
	} {
		if got := madeBy(t.Context(), tc.provider)(tc.obj); got != tc.counts {
			t.Errorf("%s counts: %v, want %v", name, got, tc.counts)
		}
	}
}
