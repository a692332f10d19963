// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
)

const reasonEveryReplicaRenews = "EveryReplicaRenews"

// reportReplicas writes whether unused instances are put to sleep and deleted, and if not, which
// replica of the data plane or which clock keeps them from it.
func (r *reconciler) reportReplicas(provider *sandbarv1alpha1.InfrastructureProvider) {
	if r.opts.Replicas == nil {
		return
	}
	verdict, looked := r.opts.Replicas.Last()
	if !looked {
		return
	}
	status, reason := metav1.ConditionTrue, reasonEveryReplicaRenews
	if verdict.Cause != "" {
		status, reason = metav1.ConditionFalse, string(verdict.Cause)
	}
	setCondition(provider, sandbarv1alpha1.ProviderUnusedEnds, status, reason, replicasMessage(verdict))
}

// replicasMessage says what is so and what to do about it.
func replicasMessage(v inuse.Verdict) string {
	switch v.Cause {
	case inuse.ClocksDisagree:
		return fmt.Sprintf("nothing is put to sleep or deleted for being unused: the clock of the controllers and that of the runtime cluster's API server differ by more than %s; look at their time synchronisation (metric sandbar_clock_ahead_seconds)", inuse.ClockTolerance)
	case inuse.FormerVersion:
		return fmt.Sprintf("nothing is put to sleep or deleted for being unused until %s after the last replica of the data plane of an earlier version has ended: finish the update of serve", inuse.GivenUpAfter)
	case inuse.NoReplica:
		return "nothing is put to sleep or deleted for being unused, because no replica of the data plane serves: look at serve"
	case inuse.ReplicaClock:
		return fmt.Sprintf("nothing is put to sleep or deleted for being unused: the clock of the data plane's replica %s differs from the controllers' by more than %s; look at its time synchronisation", v.Replica, inuse.ClockTolerance)
	case inuse.ReplicaLate:
		return fmt.Sprintf("nothing is put to sleep or deleted for being unused until the data plane's replica %s, which does not renew its Lease, has stopped serving", v.Replica)
	case inuse.ReplicaSilent:
		return fmt.Sprintf("nothing is deleted for being unused: the data plane's replica %s has stopped renewing its Lease without ending; it is given up after %s. If it is gone for good, delete its Lease in the namespace sandbar-system", v.Replica, inuse.GivenUpAfter)
	}
	return "unused instances are put to sleep and deleted as their lifecycles say"
}
