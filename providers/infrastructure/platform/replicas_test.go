// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
)

// The operator reads here why nothing sleeps, and which replica it is about.
func TestTheProviderSaysWhyNothingSleeps(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration
		reason string
		told   []string
	}{
		"every replica renews its Lease": {0, reasonEveryReplicaRenews, []string{"as their lifecycles say"}},
		"one is late":                    {inuse.LateAfter + time.Second, string(inuse.ReplicaLate), []string{"serve-7f_x", "put to sleep or deleted"}},
		"one is silent":                  {inuse.SilentAfter + time.Second, string(inuse.ReplicaSilent), []string{"serve-7f_x", "nothing is deleted", "delete its Lease"}},
	} {
		t.Run(name, func(t *testing.T) {
			writes, now, holder := 0, time.Now(), "serve-7f_x"
			export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "sandbar.dev"}}
			r := newReconciler(t, &writes, func(context.Context) (Runtime, error) { return Runtime{"v1.36.3", "v0.9.4"}, nil }, provider(), export)
			r.probe.look(t.Context())
			if got := r.run(t); meta.FindStatusCondition(got.Status.Conditions, sandbarv1alpha1.ProviderUnusedEnds) != nil {
				t.Error("something is said without a look")
			}
			cluster := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(
				&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.DataPlaneLease},
					Spec:       coordinationv1.LeaseSpec{AcquireTime: &metav1.MicroTime{Time: now.Add(-time.Hour)}, RenewTime: &metav1.MicroTime{Time: now}},
				},
				&coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: "a", Labels: map[string]string{placement.LabelReplica: "x"}},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: now.Add(-c.age)}},
				}).Build()
			r.opts.Replicas = serving.New(cluster, cluster, &inuse.Clock{}, logr.Discard())
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.opts.Replicas.Start(ctx) }()
			<-r.opts.Replicas.Changed()
			cancel()
			<-done
			got := meta.FindStatusCondition(r.run(t).Status.Conditions, sandbarv1alpha1.ProviderUnusedEnds)
			if got == nil || got.Reason != c.reason || (got.Status == metav1.ConditionTrue) != (c.age == 0) {
				t.Fatalf("the condition is %+v", got)
			}
			for _, told := range c.told {
				if !strings.Contains(got.Message, told) {
					t.Errorf("%q does not say %q", got.Message, told)
				}
			}
			ready := meta.FindStatusCondition(r.run(t).Status.Conditions, sandbarv1alpha1.ProviderReady)
			if ready == nil || ready.Status != metav1.ConditionTrue {
				t.Errorf("Ready is %+v: instances are placed all the same", ready)
			}
		})
	}
}

func TestEveryCauseHasAMessageWithARemedy(t *testing.T) {
	healthy := replicasMessage(inuse.Verdict{})
	seen := map[string]bool{}
	for _, cause := range inuse.Causes {
		message := replicasMessage(inuse.Verdict{Cause: cause, Replica: "r"})
		if message == healthy || seen[message] || !strings.Contains(message, "nothing is") {
			t.Errorf("%s: %q", cause, message)
		}
		seen[message] = true
	}
}
