// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// AnnotationGeneration on the Lease is the generation of the tenant's object that was last
// counted as use. It stands beside the time, so that one write says both.
const AnnotationGeneration = "sandbar.dev/generation"

// BuildLease builds the Lease that says: used now, by this generation of the object.
func BuildLease(s *scope.Scope, now time.Time) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: s.ObjectMeta(placement.ActivityLease),
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now}},
	}
	lease.Annotations[AnnotationGeneration] = strconv.FormatInt(s.Object().GetGeneration(), 10)
	return lease
}
