// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

const (
	// quietTime is how long an instance may take to become ready before the events of its
	// placement are read for the reason; most are ready by then.
	quietTime = 2 * time.Second
	// lookMost bounds the time between two looks at the events of an instance that stays
	// without a cause.
	lookMost = 30 * time.Second
	// maxEvents bounds how many events of a placement are read at once.
	maxEvents = 500
)

// observe returns what the runtime cluster says of the instance's pods, after the other steps. With an
// error it is what was found out before that.
func (r *reconciler) observe(ctx context.Context, s *scope.Scope, o outcome.Outcome) (outcome.Observation, error) {
	seen, now := outcome.Observation{}, r.now()
	if !outcome.PlacedVerdict(o).OK {
		return seen, nil
	}
	var pods corev1.PodList
	if err := r.runtime.client.List(ctx, &pods, client.InNamespace(s.Placement().Namespace())); err != nil {
		return seen, fmt.Errorf("listing the pods: %w", err)
	}
	seen.Pods = outcome.Summarize(pods.Items, now)
	seen.Pods.Cause = outcome.ProviderImage(s, seen.Pods.Cause)
	seen.Recheck = seen.Pods.Recheck
	var why *outcome.RefusalError
	refused := errors.As(o.Composing, &why)
	if refused {
		seen.Recheck = outcome.Sooner(seen.Recheck, triedLater(s, why, now))
	}
	if _, suspended := o.Intent(s); suspended {
		volumes, err := r.observeVolumes(ctx, s)
		seen.Volumes = volumes
		return seen, err
	}
	if refused {
		return seen, nil
	}
	return r.observeCause(ctx, s, o, seen, now)
}

// observeCause completes an observation with what keeps the instance from being ready and its pods do not
// say.
func (r *reconciler) observeCause(ctx context.Context, s *scope.Scope, o outcome.Outcome, seen outcome.Observation, now time.Time) (outcome.Observation, error) {
	found, again, err := r.observeDeletion(ctx, s, o.Instance)
	if err == nil && o.Instance != nil && found == nil && (seen.Pods.Cause == nil || seen.Pods.Cause.Reason == outcome.ReasonVolume) {
		o.Observation = seen
		found, again, err = r.observeEvents(ctx, s, o, now)
	}
	if err != nil {
		return seen, err
	}
	seen.Finding = found
	quoted, words := r.observeLastWords(ctx, s, seen.Cause(), now)
	seen.ReplaceCause(quoted)
	seen.Recheck = outcome.Sooner(seen.Recheck, outcome.Sooner(again, words))
	return seen, nil
}

// observeVolumes finds out whether a suspension keeps volumes, until one is known: those of an instance
// that was suspended from the start come later than its first status.
func (r *reconciler) observeVolumes(ctx context.Context, s *scope.Scope) (bool, error) {
	if outcome.KeepsVolumes(s.Status()) {
		return false, nil
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.runtime.live.List(ctx, &claims, client.InNamespace(s.Placement().Namespace()), client.Limit(1)); err != nil {
		return false, fmt.Errorf("listing the volumes: %w", err)
	}
	return len(claims.Items) > 0, nil
}

// observeEvents reads the placement's events when the instance is not ready and no pod says
// why: a pod that is refused, a volume that does not come and a sandbox that cannot be made
// show nowhere else.
func (r *reconciler) observeEvents(ctx context.Context, s *scope.Scope, o outcome.Outcome, now time.Time) (*outcome.Cause, time.Duration, error) {
	if outcome.ComposedVerdict(s, outcome.PlacedVerdict(o), o).OK && o.Pods.Ready == o.Pods.Present {
		return nil, 0, nil
	}
	since := falseSince(s, sandbarv1alpha1.InstanceReadyCondition, now)
	waited := now.Sub(since)
	if waited < quietTime {
		return nil, quietTime - waited, nil
	}
	var events corev1.EventList
	if err := r.runtime.live.List(ctx, &events, client.InNamespace(s.Placement().Namespace()), client.Limit(maxEvents)); err != nil {
		return nil, 0, fmt.Errorf("listing the events: %w", err)
	}
	return outcome.CauseInEvents(events.Items, o.Pods.Names, since), min(max(waited, quietTime), lookMost), nil
}

// triedLater is after which time to try again what was refused: after as long as it has been refused
// already, so that an object which is refused for ever costs less and less. Zero means never.
func triedLater(s *scope.Scope, refused *outcome.RefusalError, now time.Time) time.Duration {
	if refused.Recheck == 0 {
		return 0
	}
	return refused.Again(falseSince(s, sandbarv1alpha1.InstanceComposed, now), now)
}

// falseSince is since when a condition of the instance is false, or now if nothing says so yet.
func falseSince(s *scope.Scope, name string, now time.Time) time.Time {
	if condition := meta.FindStatusCondition(s.Status().Conditions, name); condition != nil && condition.Status == metav1.ConditionFalse {
		return condition.LastTransitionTime.Time
	}
	return now
}
