// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

func objectNamed(name string) export.Key {
	return export.Key{Cluster: "tenant", NamespacedName: types.NamespacedName{Namespace: "team-a", Name: name}}
}

func TestAMemberIsPreparedForOneInstance(t *testing.T) {
	p, now := newPreparations(), time.Now()
	woken := ""
	one, begun := p.begin(objectNamed("one"), &preparation{namespace: "m1", began: now, wakes: func() { woken = "one" }})
	if one == nil || !begun || !p.has("m1") || !p.isFor(objectNamed("one"), "m1") || !p.isForOther(objectNamed("two"), "m1") {
		t.Fatalf("it is not noted: %v %v", one, begun)
	}
	if again, begun := p.begin(objectNamed("one"), &preparation{namespace: "m1", began: now.Add(time.Second)}); again != one || begun {
		t.Error("it begins again")
	}
	if other, _ := p.begin(objectNamed("two"), &preparation{namespace: "m1", began: now}); other != nil {
		t.Error("another one gets it, too")
	}
	if p.wake("m1"); woken != "one" {
		t.Error("the instance is not woken")
	}
	if _, begun := p.begin(objectNamed("one"), &preparation{namespace: "m2", began: now}); !begun || p.has("m1") {
		t.Error("it has two")
	}
	p.forget(objectNamed("one"))
	if p.has("m2") {
		t.Error("it is not forgotten")
	}
}

// An instance that is gone does not keep a member from others for good.
func TestAPreparationThatNobodyFollowsEnds(t *testing.T) {
	p, now := newPreparations(), time.Now()
	p.begin(objectNamed("gone"), &preparation{namespace: "m1", began: now})
	if mine, begun := p.begin(objectNamed("next"), &preparation{namespace: "m1", began: now.Add(2*ResizePatience + 1)}); mine == nil || !begun {
		t.Error("the member is the other's still")
	}
}

func TestWhatFailsIsCountedForAWhile(t *testing.T) {
	p, now := newPreparations(), time.Now()
	for n := range maxResizes {
		if got := p.failures(objectNamed("one"), now); got != n {
			t.Errorf("%d have failed, want %d", got, n)
		}
		p.failed(objectNamed("one"), now)
	}
	if p.failures(objectNamed("one"), now) < maxResizes || p.failures(objectNamed("two"), now) != 0 {
		t.Error("it is not counted, or for another one")
	}
	if p.failures(objectNamed("one"), now.Add(resizesForgotten+1)) != 0 {
		t.Error("it is counted for ever")
	}
}
