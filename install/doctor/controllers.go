// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/canary"
)

// beatsMissed is after how long without a beat the controllers count as stopped: a beat may take its patience, and a
// leader that died is replaced within a minute.
const beatsMissed = 2*(canary.DefaultInterval+canary.DefaultPatience) + inuse.ClockTolerance

const startControllers = "start sandbar-provider controllers, or run, and look at its log: instances that run go on meanwhile"

// checkControllers looks at the beat that the controllers write through kro, so that it tells of both sides of their
// work: they reach the runtime cluster, and they do not wait for kcp.
func (e *examination) checkControllers(ctx context.Context) []Finding {
	beat, err := canary.ReadBeat(ctx, e.Runtime, e.names)
	switch {
	case apierrors.IsNotFound(err):
		return one(failure(startControllers, "the controllers have not run on this runtime cluster yet"))
	case err != nil:
		return one(failure("", "%v", err))
	}
	if age := time.Since(beat.Written); age > beatsMissed {
		return one(failure(startControllers, "the controllers wrote their last sign of life %s ago, at %s", age.Round(time.Second), beat.Written.UTC().Format(time.RFC3339)))
	}
	if e.provider.Status.ObservedGeneration < e.provider.Generation {
		return one(warning("wait for a moment and run it again; if it stays so, look at the controllers' log", "the controllers run, and have not looked at the last change of the InfrastructureProvider yet"))
	}
	return one(passed("they run: their last sign of life is of %s", beat.Written.UTC().Format(time.RFC3339)))
}

// conditions are those of the InfrastructureProvider. Their messages say what to do.
var conditions = []string{
	sandbarv1alpha1.ProviderRuntimeReachable, sandbarv1alpha1.ProviderPlatformPublished, sandbarv1alpha1.ProviderComposing,
	sandbarv1alpha1.ProviderUnusedEnds, sandbarv1alpha1.ProviderNetworkPolicyEnforced, sandbarv1alpha1.ProviderDNSReachable,
}

// checkConditions passes on what the controllers found out, also by pods of their own: whether network policies hold, and
// whether a name resolves under them.
func (e *examination) checkConditions(context.Context) []Finding {
	var found []Finding
	for _, name := range conditions {
		c := meta.FindStatusCondition(e.provider.Status.Conditions, name)
		switch {
		case c == nil:
			found = append(found, warning("run it again in a minute", "%s is not known yet", name))
		case c.Status == metav1.ConditionTrue:
			found = append(found, passed("%s: %s", name, c.Message))
		case c.Status == metav1.ConditionFalse:
			found = append(found, failure("", "%s: %s: %s", name, c.Reason, c.Message))
		default:
			found = append(found, warning("", "%s could not be tried: %s: %s", name, c.Reason, c.Message))
		}
	}
	return found
}

// checkReplicas looks at the Leases of the data plane's replicas.
func (e *examination) checkReplicas(ctx context.Context) []Finding {
	var leases coordinationv1.LeaseList
	if err := e.runtime.List(ctx, &leases, client.InNamespace(e.names.SystemNamespace()), client.HasLabels{placement.LabelReplica}); err != nil {
		return one(failure("", "their Leases cannot be listed: %v", err))
	}
	var serving, silent []string
	for _, lease := range leases.Items {
		name := strings.TrimPrefix(lease.Name, placement.ReplicaLeasePrefix)
		if renewed := lease.Spec.RenewTime; renewed != nil && time.Since(renewed.Time) <= inuse.SilentAfter {
			serving = append(serving, name)
		} else {
			silent = append(silent, name)
		}
	}
	slices.Sort(serving)
	switch {
	case len(serving) == 0:
		return one(failure("start sandbar-provider serve, or run, and look at its log", "no replica of the data plane serves: no verb of any tenant works"))
	case len(silent) > 0:
		return one(warning("if they are gone for good, wait: they are given up after "+inuse.GivenUpAfter.String(),
			"%d replicas serve; silent: %s", len(serving), someOf(silent)))
	}
	return one(passed("%d replicas of the data plane serve: %s", len(serving), someOf(serving)))
}
