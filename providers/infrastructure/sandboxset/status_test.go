// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

func TestTheStatusOfASetWithoutAUsableTemplate(t *testing.T) {
	set := &sandbarv1alpha1.SandboxSet{ObjectMeta: metav1.ObjectMeta{Name: "pool", Generation: 3}, Spec: sandbarv1alpha1.SandboxSetSpec{Replicas: 3}}
	o := found{
		invalid: &outcome.RefusalError{Reason: "TemplateNotUsable", Message: "there is none"},
		members: []members.Member{member("a", 9, "warm"), member("b", 1)}, wishes: invalidly(wanted(3)),
	}
	wantConditions(t, buildStatus(set, o, members.Claims{}, now), map[string]string{
		sandbarv1alpha1.SandboxSetValid: "False TemplateNotUsable", sandbarv1alpha1.SandboxSetAvailable: "False Invalid",
		sandbarv1alpha1.SandboxSetScalingLimited: "True Invalid", sandbarv1alpha1.SandboxSetProgressing: "False Invalid",
	})
}

// What nothing else says is told of a member that does not become ready.
func TestTheStatusNamesMembersThatStartForLong(t *testing.T) {
	set := &sandbarv1alpha1.SandboxSet{Spec: sandbarv1alpha1.SandboxSetSpec{Replicas: 3}}
	o := found{wishes: wanted(3), members: []members.Member{member("a", 6), member("b", 6), member("c", 1, "warm"), member("d", 6, "failing")}}
	o.plan = planFor(o.wishes, o.members, now)
	status := buildStatus(set, o, members.Claims{}, now)
	if status.Replicas != 4 || status.AvailableReplicas != 1 || status.FailingReplicas != 3 || len(status.Problems) != 2 {
		t.Errorf("%+v", status)
	}
	if p := status.Problems[0]; p.Count != 2 || p.Reason != reasonStarting || p.Message == "" {
		t.Errorf("%+v", p)
	}
}

func wantConditions(t *testing.T, status *sandbarv1alpha1.SandboxSetStatus, want map[string]string) {
	t.Helper()
	for name, says := range want {
		c := meta.FindStatusCondition(status.Conditions, name)
		if c == nil || string(c.Status)+" "+c.Reason != says || c.Message == "" {
			t.Errorf("%s is %+v, want %s", name, c, says)
		}
	}
}
