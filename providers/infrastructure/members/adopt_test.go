// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
)

// Each pair of sets that differ in one respect, and agree, or say the opposite, in all that count less.
func TestTheOrderOfPreferenceForEveryPair(t *testing.T) {
	member := func(patch placement.MemberPatch, priority int32, available int, set string, minute int) (candidateMember, int) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(set, minute), CreationTimestamp: fixture.Before(time.Duration(minute) * time.Minute)}}
		return candidateMember{namespace: ns, set: set, uid: types.UID("uid-" + set), patch: patch, priority: priority}, available
	}
	type side struct {
		patch     placement.MemberPatch
		priority  int32
		available int
		set       string
		age       int
	}
	for name, pair := range map[string][2]side{
		"unpatched before resources that are equal":  {{placement.Unpatched, -9, 1, "z", 0}, {placement.PatchedResourcesEqual, 9, 9, "a", 9}},
		"unpatched before resources that differ":     {{placement.Unpatched, -9, 1, "z", 0}, {placement.PatchedResourcesDiffer, 9, 9, "a", 9}},
		"unpatched before those to be resized":       {{placement.Unpatched, -9, 1, "z", 0}, {placement.PatchedResizable, 9, 9, "a", 9}},
		"equal resources before those to be resized": {{placement.PatchedResourcesEqual, -9, 1, "z", 0}, {placement.PatchedResizable, 9, 9, "a", 9}},
		"those to be resized before the rest":        {{placement.PatchedResizable, -9, 1, "z", 0}, {placement.PatchedResourcesDiffer, 9, 9, "a", 9}},
		"a higher priority, to be resized":           {{placement.PatchedResizable, 1, 1, "z", 0}, {placement.PatchedResizable, 0, 9, "a", 9}},
		"equal resources before others":              {{placement.PatchedResourcesEqual, -9, 1, "z", 0}, {placement.PatchedResourcesDiffer, 9, 9, "a", 9}},
		"a higher priority, unpatched":               {{placement.Unpatched, 1, 1, "z", 0}, {placement.Unpatched, 0, 9, "a", 9}},
		"a higher priority, equal resources":         {{placement.PatchedResourcesEqual, 1, 1, "z", 0}, {placement.PatchedResourcesEqual, 0, 9, "a", 9}},
		"a higher priority, other resources":         {{placement.PatchedResourcesDiffer, 1, 1, "z", 0}, {placement.PatchedResourcesDiffer, 0, 9, "a", 9}},
		"a negative priority last":                   {{placement.Unpatched, 0, 1, "z", 0}, {placement.Unpatched, -1, 9, "a", 9}},
		"more that are ready":                        {{placement.Unpatched, 0, 2, "z", 0}, {placement.Unpatched, 0, 1, "a", 9}},
		"the first by name":                          {{placement.Unpatched, 0, 1, "a", 0}, {placement.Unpatched, 0, 1, "z", 9}},
		"of one set the oldest":                      {{placement.Unpatched, 0, 2, "a", 9}, {placement.Unpatched, 0, 2, "a", 0}},
	} {
		t.Run(name, func(t *testing.T) {
			first, n := member(pair[0].patch, pair[0].priority, pair[0].available, pair[0].set, pair[0].age)
			second, m := member(pair[1].patch, pair[1].priority, pair[1].available, pair[1].set, pair[1].age)
			available := map[types.UID]int{second.uid: m, first.uid: n}
			if order(first, second, available) >= 0 || order(second, first, available) <= 0 {
				t.Errorf("%+v does not go before %+v", pair[0], pair[1])
			}
		})
	}
}

// What is under way for an instance is finished, even if a better one has come up since.
func TestTheMemberThatIsBeingPreparedForAnInstanceIsTakenFirst(t *testing.T) {
	mine := candidateMember{namespace: &corev1.Namespace{}, set: "z", patch: placement.PatchedResourcesDiffer, priority: -9, mine: true}
	other := candidateMember{namespace: &corev1.Namespace{}, set: "a", patch: placement.Unpatched, priority: 9}
	if order(mine, other, nil) >= 0 || order(other, mine, nil) <= 0 {
		t.Error("another one goes first")
	}
}

// The order of preference, as a table of its own.
func TestTheOrderInWhichMembersAreTaken(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(fixture.Now.Add(time.Duration(minute) * time.Minute))
	}
	of := func(set, name string, priority int32, minute int) candidateMember {
		ns := &corev1.Namespace{}
		ns.Name, ns.CreationTimestamp = name, at(minute)
		return candidateMember{namespace: ns, set: set, uid: types.UID("uid-" + set), priority: priority}
	}
	available := map[types.UID]int{"uid-a": 1, "uid-b": 2, "uid-c": 2}
	want := []candidateMember{
		of("a", "n1", 9, 5), // a higher priority, though its set has fewer
		of("b", "n3", 0, 1), // of two with as many, the first by name, and the oldest of it
		of("b", "n2", 0, 2),
		of("c", "n4", 0, 0),
		of("c", "n5", 0, 0),
		of("a", "n6", 0, 0), // its set has fewer
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b candidateMember) int { return order(a, b, available) })
	for i := range want {
		if got[i].namespace.Name != want[i].namespace.Name {
			t.Errorf("number %d is %s, want %s", i, got[i].namespace.Name, want[i].namespace.Name)
		}
	}
}
