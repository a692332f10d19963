// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// The reasons are those of the table in docs/lifecycle.md; they were those of the condition Ready, which say that a
// pod is being initialized.
func TestWhyAMemberDoesNotComeUp(t *testing.T) {
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want members.Trouble
	}{
		"no node has room": {
			fixture.With(fixture.PodOf("sandbox-0", fixture.Running(0, false, 0)), fixture.Unschedulable("0/1 nodes are available: 1 Insufficient memory.")),
			members.Trouble{Reason: "NoNodeHasRoom", Waits: true},
		},
		"its image is missing": {fixture.PodOf("sandbox-0", fixture.WaitingFor("ErrImagePull", "not found")), members.Trouble{Reason: "ImageNotPullable", Failing: true}},
		"it crashes": {
			fixture.With(fixture.PodOf("sandbox-0", fixture.WaitingFor("CrashLoopBackOff", "back-off")), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 5 }),
			members.Trouble{Reason: "CrashLoop", Failing: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWarmWorld(t, 0)
			set := w.configure(testSet)
			if err := w.members.Make(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			name := w.memberNames()[0]
			w.lookAtMember(name)
			instance := fixture.Thing.NewObject()
			if err := w.runtime.Get(t.Context(), types.NamespacedName{Namespace: name, Name: placement.BornInstance}, instance); err != nil {
				t.Fatal(err)
			}
			instance.Object["status"] = map[string]any{"state": "IN_PROGRESS"}
			test.pod.Namespace = name
			if err := errors.Join(w.runtime.Update(t.Context(), instance), w.runtime.Create(t.Context(), &test.pod)); err != nil {
				t.Fatal(err)
			}
			w.lookAtMember(name)
			all, err := w.members.Of(t.Context(), set.Key)
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			got := all[0].Trouble
			if got.Message == "" || got.Since.IsZero() {
				t.Errorf("%+v", got)
			}
			if got.Message, got.Since = "", (time.Time{}); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestAMemberHasTheAgeOfItsPod(t *testing.T) {
	now := fixture.Now
	for name, test := range map[string]struct {
		member members.Member
		want   time.Duration
	}{
		"that runs":                  {members.Member{Created: now.Add(-time.Hour), Started: now.Add(-time.Minute)}, time.Minute},
		"that has no node yet":       {members.Member{Created: now.Add(-time.Hour), Member: placement.Member{State: placement.MemberMaking}}, 0},
		"whose pod is made again":    {members.Member{Created: now.Add(-time.Hour), Member: placement.Member{State: placement.MemberWarm}}, time.Hour},
		"that the cache has not yet": {members.Member{Created: now}, 0},
	} {
		if got := test.member.Age(now); got != test.want {
			t.Errorf("one %s has the age %v, want %v", name, got, test.want)
		}
	}
}

// A tenant finds the field in its set, which has others than a Sandbox.
func TestASetsOwnFieldIsNamed(t *testing.T) {
	w := newWarmWorld(t, 0)
	w.configure(testSet)
	for field, change := range map[string]func(*members.Set){
		"spec.templateRef: there is no SandboxTemplate": func(s *members.Set) { s.Template.Name, s.Field = "nobody-has-this", "spec.templateRef" },
		"correct spec.template: ": func(s *members.Set) {
			w.templates["bad"] = ownTemplate("bad", "uid-9", "image")
			w.templates["bad"].Spec.Template.Spec.NodeName = "chosen"
			s.Template.Name, s.Field = "bad", "spec.template"
		},
	} {
		set := testSet
		change(&set)
		_, _, err := w.members.Revision(t.Context(), set)
		var refused *outcome.RefusalError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, field) {
			t.Errorf("%v, want %s", err, field)
		}
	}
}
