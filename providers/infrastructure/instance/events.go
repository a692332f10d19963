// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// An instance may have eventBurst events at once and then one per eventInterval: what goes
	// to and fro must not fill its workspace.
	eventBurst    = 25
	eventInterval = time.Minute

	// maxTold bounds how many instances' rates are remembered; one that is forgotten starts
	// with a full burst.
	maxTold = 4096

	// A workspace that has not accepted the claim is asked again after deafTime; maxDeaf of
	// them are remembered.
	deafTime = 10 * time.Minute
	maxDeaf  = 8192

	// eventTimeout bounds how long an event may hold up its instance.
	eventTimeout = 2 * time.Second
)

// teller writes events into tenants' workspaces: what has become of an instance, for those who
// were not looking. An event that cannot be written is counted and left out; the status says
// the same.
type teller struct {
	record func(ctx context.Context, req request, event *corev1.Event) error
	rates  *lru.Cache[types.UID, *rate.Limiter]
	// deaf are the workspaces that have not accepted the permission claim on events.
	deaf *expirable.LRU[string, struct{}]
}

func newTeller(record func(ctx context.Context, req request, event *corev1.Event) error) *teller {
	rates, _ := lru.New[types.UID, *rate.Limiter](maxTold) // fails only for a size below one
	return &teller{record: record, rates: rates, deaf: expirable.NewLRU[string, struct{}](maxDeaf, nil, deafTime)}
}

// tell writes one event about the instance.
func (t *teller) tell(ctx context.Context, req request, s *scope, reason, message string, now time.Time) {
	outcome := t.try(ctx, req, s, buildEvent(s, reason, message, now), now)
	eventsTotal.WithLabelValues(outcome).Inc()
}

// try returns the event's fate, as the metric names it.
func (t *teller) try(ctx context.Context, req request, s *scope, event *corev1.Event, now time.Time) string {
	if _, deaf := t.deaf.Get(req.cluster); deaf {
		return "unclaimed"
	}
	limit := rate.NewLimiter(rate.Every(eventInterval), eventBurst)
	if known, ok, _ := t.rates.PeekOrAdd(s.id.UID, limit); ok {
		limit = known
	}
	if !limit.AllowN(now, 1) {
		return "limited"
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	err := t.record(ctx, req, event)
	switch {
	case err == nil:
		return "written"
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "failed"
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		t.deaf.Add(req.cluster, struct{}{})
		return "unclaimed"
	}
	log.FromContext(ctx).V(1).Info("could not write an event", "reason", event.Reason, "error", err.Error())
	return "failed"
}

// bad are the phases that are told as warnings; beginnings are how every instance begins, and
// worth no event.
var (
	bad        = []sandbarv1alpha1.InstancePhase{sandbarv1alpha1.InstanceFailed, sandbarv1alpha1.InstanceDegraded, sandbarv1alpha1.InstancePendingCapacity}
	beginnings = []sandbarv1alpha1.InstancePhase{sandbarv1alpha1.InstancePending, sandbarv1alpha1.InstanceMaterializing}
)

func buildEvent(s *scope, reason, message string, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.object.GetNamespace(), GenerateName: eventNamePrefix(s.object.GetName())},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: s.gvk.GroupVersion().String(), Kind: s.gvk.Kind,
			Namespace: s.object.GetNamespace(), Name: s.object.GetName(), UID: s.id.UID,
		},
		Type: corev1.EventTypeNormal, Reason: reason, Message: shortened(message, maxMessage),
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: "sandbar"}, ReportingController: "sandbar.dev/provider",
	}
	event.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	if slices.Contains(bad, sandbarv1alpha1.InstancePhase(reason)) {
		event.Type = corev1.EventTypeWarning
	}
	return event
}

// eventNamePrefix leaves room for the suffix that the API server makes: an instance's name may be
// as long as a name can be.
func eventNamePrefix(name string) string {
	const most = 200
	return name[:min(len(name), most)] + "."
}

// deletionMessages tell why an instance that nobody deleted is deleted.
var deletionMessages = map[sandbarv1alpha1.SuspensionCause]string{
	sandbarv1alpha1.SuspendedExpired: "deleted: its spec.lifecycle.shutdownTime has passed",
	sandbarv1alpha1.SuspendedUnused:  "deleted: nobody used it for spec.lifecycle.deleteAfterUnused",
}

// tellPhase tells of a change of the phase.
func (r *reconciler) tellPhase(ctx context.Context, req request, s *scope, old, status sandbarv1alpha1.InstanceStatus) {
	if status.Phase == old.Phase || slices.Contains(beginnings, status.Phase) {
		return
	}
	message := ""
	for _, condition := range status.Conditions {
		if condition.Type == sandbarv1alpha1.InstanceReadyCondition {
			message = condition.Message
		}
	}
	if status.Phase == sandbarv1alpha1.InstanceSuspending && status.Suspension != nil {
		message = string(status.Suspension.Cause) + ": " + suspensionMessages[status.Suspension.Cause]
	}
	r.teller.tell(ctx, req, s, string(status.Phase), message, r.now())
}
