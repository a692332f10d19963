// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/netcheck"
)

func TestWhatExitCodesMeanTogether(t *testing.T) {
	for name, tc := range map[string]struct {
		free, confined int
		status         metav1.ConditionStatus
		reason         string
	}{
		"both are kept out":                        {netcheck.Blocked, netcheck.Blocked, metav1.ConditionTrue, ReasonEnforced},
		"incoming connections are not":             {netcheck.Reached, netcheck.Blocked, metav1.ConditionFalse, ReasonNotEnforced},
		"outgoing connections are not":             {netcheck.Blocked, netcheck.Reached, metav1.ConditionFalse, ReasonNotEnforced},
		"neither are":                              {netcheck.Reached, netcheck.Reached, metav1.ConditionFalse, ReasonNotEnforced},
		"a network that does nothing says nothing": {netcheck.NoNetwork, netcheck.Blocked, metav1.ConditionUnknown, ReasonNoNetwork},
	} {
		got, err := judge(tc.free, tc.confined)
		if err != nil || got.Status != tc.status || got.Reason != tc.reason || got.Message == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// A runner without the command, one that was killed.
	for _, code := range []int{0, 1, 2, 137} {
		if _, err := judge(code, netcheck.Blocked); err == nil {
			t.Errorf("exit code %d is taken for a result", code)
		}
	}
}

func TestPoliciesAreTriedAtTheStartAndNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var checks, told []time.Duration
		p := New(nil, "", func(context.Context) { told = append(told, time.Since(began)) })
		p.check = func(_ context.Context, s Settings) Results {
			checks = append(checks, time.Since(began))
			good, bad := Result{metav1.ConditionTrue, "R", s.Image + s.RuntimeClass}, Result{metav1.ConditionFalse, "R", s.Image + s.RuntimeClass}
			switch {
			case time.Since(began) < 65*time.Minute:
				return Results{Policies: bad, DNS: good}
			case time.Since(began) < 85*time.Minute:
				return Results{Policies: good, DNS: bad}
			case time.Since(began) < 8*time.Hour:
				return Results{Policies: good, DNS: good}
			}
			return Results{Policies: good} // of DNS nothing is said
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Start(ctx) }()

		time.Sleep(time.Hour)
		synctest.Wait()
		if _, ok := p.Last(); ok || len(checks) > 0 {
			t.Error("something was tried before anything is known")
		}
		p.Use(Settings{Egress: &networkingv1.NetworkPolicySpec{}})
		synctest.Wait()
		if got, _ := p.Last(); got.Policies.Reason != ReasonNoImage || got.DNS.Reason != ReasonNoImage || len(checks) > 0 {
			t.Errorf("without an image: %+v", got)
		}
		p.Use(Settings{Image: "runner:1"})
		p.Use(Settings{Image: "runner:1"}) // as with each reconcile
		time.Sleep(8 * time.Hour)
		p.Use(Settings{Image: "runner:1", Egress: &networkingv1.NetworkPolicySpec{}})
		if got, _ := p.Last(); got.DNS.Reason != ReasonPending || got.Policies.Status != metav1.ConditionTrue {
			t.Errorf("what was found before the change of the policy is still said: %+v", got)
		}
		p.Use(Settings{Image: "runner:1", Egress: &networkingv1.NetworkPolicySpec{}})
		time.Sleep(7 * time.Hour)
		stop()
		<-done
		want := []time.Duration{60 * time.Minute, 70 * time.Minute, 80 * time.Minute, 90 * time.Minute, 7*time.Hour + 30*time.Minute, 9 * time.Hour, 15 * time.Hour}
		if !slices.Equal(checks, want) {
			t.Errorf("tried at %v, want %v", checks, want)
		}
		if want := "[1h0m0s 1h0m0s 1h10m0s 1h30m0s 9h0m0s]"; fmt.Sprint(told) != want {
			t.Errorf("told at %v, want news only: %s", told, want)
		}
	})
}

func TestThePodsAreAsConfinedAsSandboxesAre(t *testing.T) {
	for _, name := range []string{podOpen, podShut, podFree, podConfined, podDNS, podFreeDNS} {
		pod := (&checker{settings: Settings{Image: "runner:1", RuntimeClass: "gvisor"}}).build(name, []string{"netcheck"})
		security := pod.Spec.Containers[0].SecurityContext
		if *pod.Spec.AutomountServiceAccountToken || !*pod.Spec.SecurityContext.RunAsNonRoot || *security.AllowPrivilegeEscalation ||
			*pod.Spec.RuntimeClassName != "gvisor" || *pod.Spec.ActiveDeadlineSeconds == 0 || pod.Labels[labelPod] != name {
			t.Errorf("%s: %+v", name, pod)
		}
	}
}
