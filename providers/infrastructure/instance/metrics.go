// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Labels are enumerations that the operator decides (Templates) or this file; a label per
// workspace or instance would grow without bound.
var (
	reconcilesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_reconciles_total",
		Help: "Reconciles of instances by Template and outcome (ok, error).",
	}, []string{"template", "outcome"})
	kindRestartsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_kind_restarts_total",
		Help: "How often the controller of a Template's kind was started again after it failed.",
	}, []string{"template"})
	endpointRetriesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_endpoint_retries_total",
		Help: "How often a shard could not be followed for a Template's kind and was tried again.",
	}, []string{"template"})
	limitRefusalsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_limit_refusals_total",
		Help: "How often an instance was told to wait for a place, by reason (WorkspaceLimit, PlacementsLimit).",
	}, []string{"reason"})
	claimsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_claims_total",
		Help: "Starts of instances that a SandboxSet might have kept ready, by type (Warm, Cold) and, of cold ones, reason.",
	}, []string{"start", "reason"})
	claimStepSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sandbar_claim_step_seconds",
		Help: "How long the steps of a warm start took: read (from kcp, of all instances without a place), revision (of its pod), adoption (choosing and taking a member), binding (the variables of its own reach its pod), observation and status.",
		// From half a millisecond to some four seconds, each a quarter longer than the one before.
		Buckets: prometheus.ExponentialBuckets(0.0005, 1.25, 41),
	}, []string{"step"})
	podRevisionsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sandbar_pod_revisions_total",
		Help: "How often the pod of an instance was built to find members with the same one. It stands still while Sandboxes of known templates start.",
	})
	patchComputationsTotal = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sandbar_patch_computations_total",
		Help: "How often the patch of a SandboxSet was applied to a pod template. It stands still while Sandboxes start.",
	})
	resizesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_resizes_total",
		Help: "Members of SandboxSets that were to get the resources of their template before a Sandbox took them, by outcome (Done, Refused by the API server, Infeasible: the node never has the room, Late: not within 10 s).",
	}, []string{"outcome"})
	envDeliveriesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_env_deliveries_total",
		Help: "How often the pod of a Sandbox that took a member of a SandboxSet was given the Sandbox's own variables, by outcome (delivered, failed: tried again).",
	}, []string{"outcome"})
	lifecycleTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_lifecycle_total",
		Help: "What the lifecycle did with instances, by Template and change (slept, woke, deleted).",
	}, []string{"template", "change"})
	lostTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_lost_total",
		Help: "How often what an instance had on the runtime cluster was deleted under the provider, by reason (PlacementLost, ResourcesLost, SnapshotsLost).",
	}, []string{"reason"})
	logsKeptTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_logs_kept_total",
		Help: "How often the end of an instance's log was kept before a suspension, by outcome (kept, failed).",
	}, []string{"outcome"})
	eventsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_instance_events_total",
		Help: "Events for tenants by outcome (written, unclaimed: the workspace has not accepted the claim, limited, failed, dropped: too many waited).",
	}, []string{"outcome"})
)

func init() {
	metrics.Registry.MustRegister(reconcilesTotal, claimsTotal, claimStepSeconds, podRevisionsTotal, patchComputationsTotal, resizesTotal, envDeliveriesTotal, limitRefusalsTotal, lifecycleTotal, logsKeptTotal, lostTotal, kindRestartsTotal, endpointRetriesTotal, eventsTotal)
}

func init() {
	// An alert reads the increase of these: the first event must find them at zero.
	for _, reason := range []string{outcome.ReasonWorkspaceLimit, outcome.ReasonPlacementsLimit} {
		limitRefusalsTotal.WithLabelValues(reason)
	}
	for _, name := range []string{deliveryDone, deliveryFailed} {
		envDeliveriesTotal.WithLabelValues(name)
	}
	for _, reason := range outcome.LossReasons {
		lostTotal.WithLabelValues(reason)
	}
}

func countReconcile(k scope.Kind, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	reconcilesTotal.WithLabelValues(k.Template, outcome).Inc()
}

// countLifecycle counts a change that has been written.
func countLifecycle(k scope.Kind, p outcome.Plan) {
	switch {
	case p.Deleted != "":
		lifecycleTotal.WithLabelValues(k.Template, "deleted").Inc()
	case p.Rests && !p.WasResting:
		lifecycleTotal.WithLabelValues(k.Template, "slept").Inc()
	case p.WasResting && !p.Rests && p.Suspended == "":
		lifecycleTotal.WithLabelValues(k.Template, "woke").Inc()
	}
}

// runtimeMetrics tells what is in the cache of the runtime cluster when it is asked; it keeps no
// state that could drift.
type runtimeMetrics struct {
	runtime client.Reader
	names   placement.Names
	// provider is the logical cluster of the provider workspace, whose placements count; empty while it is not known.
	provider func(context.Context) (string, error)
}

var (
	placementsDesc = prometheus.NewDesc("sandbar_placements", "Placements on the runtime cluster by Template.", []string{"template"}, nil)
	membersDesc    = prometheus.NewDesc("sandbar_set_members",
		"Placements that SandboxSets keep for somebody, by state (making, warm, leaving).", []string{"state"}, nil)
	heartbeatAgeDesc = prometheus.NewDesc("sandbar_heartbeat_age_seconds",
		"How old the data plane's heartbeat is by the controllers' clock; negative if that is behind. Beyond 45 either way nothing is put to sleep.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c runtimeMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- placementsDesc
	out <- membersDesc
	out <- heartbeatAgeDesc
}

// Collect implements prometheus.Collector.
func (c runtimeMetrics) Collect(out chan<- prometheus.Metric) {
	c.countPlacements(out)
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: c.names.SystemNamespace(), Name: placement.DataPlaneLease}
	if err := c.runtime.Get(context.Background(), key, lease); err == nil && lease.Spec.RenewTime != nil {
		out <- prometheus.MustNewConstMetric(heartbeatAgeDesc, prometheus.GaugeValue, time.Since(lease.Spec.RenewTime.Time).Seconds())
	}
}

func (c runtimeMetrics) countPlacements(out chan<- prometheus.Metric) {
	var list corev1.NamespaceList
	if err := c.runtime.List(context.Background(), &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	provider, err := c.provider(context.Background())
	if err != nil {
		return
	}
	counts, members := map[string]int{}, map[string]int{}
	for _, ns := range list.Items {
		if placement.ProviderOf(&ns) != provider {
			continue
		}
		if member, ok := placement.MemberOf(&ns); ok {
			members[member.State]++
		}
		counts[ns.Labels[placement.LabelTemplate]]++
	}
	for state, count := range members {
		out <- prometheus.MustNewConstMetric(membersDesc, prometheus.GaugeValue, float64(count), state)
	}
	for template, count := range counts {
		out <- prometheus.MustNewConstMetric(placementsDesc, prometheus.GaugeValue, float64(count), template)
	}
}
