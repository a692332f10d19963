// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package events writes events into tenants' workspaces, beside the objects that they are about: for those who
// were not looking when something changed. An event that cannot be written is counted and left out; the status
// of the object says the same.
//
// In: an object's key and the event. Out: a write in the object's workspace, if the workspace has accepted the
// permission claim on events and the object has not had too many.
package events

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

const (
	// An object may have burst events at once and then one per interval: what goes to and fro must not fill
	// its workspace.
	burst    = 25
	interval = time.Minute

	// maxLimited bounds the objects whose rates are remembered; one that is forgotten starts with a full
	// burst.
	maxLimited = 4096

	// A workspace that has not accepted the claim is asked again after unclaimedTime; maxUnclaimed of them
	// are remembered.
	unclaimedTime = 10 * time.Minute
	maxUnclaimed  = 8192

	// timeout bounds how long an event may hold up the reconcile of its object.
	timeout = 2 * time.Second
)

// Outcomes of an event, as the metrics name them.
const (
	written   = "written"
	unclaimed = "unclaimed" // the workspace has not accepted the claim
	limited   = "limited"
	failed    = "failed"

	// unanswered is not an outcome: kcp was too slow, or away, and may take the event later.
	unanswered = "unanswered"
)

// Record writes an event beside an object; export.Objects.Record does it in kcp.
type Record func(ctx context.Context, key export.Key, event *corev1.Event) error

// Recorder writes events about the objects of one kind. It is safe for concurrent use.
type Recorder struct {
	record   Record
	outcomes *prometheus.CounterVec
	rates    *lru.Cache[types.UID, *rate.Limiter]
	// unclaimed says when a workspace was last found not to have accepted the permission claim.
	unclaimed *lru.Cache[string, time.Time]
}

// NewRecorder returns a Recorder that counts events by their outcome.
func NewRecorder(record Record, outcomes *prometheus.CounterVec) *Recorder {
	rates, _ := lru.New[types.UID, *rate.Limiter](maxLimited) // fails only for a size below one
	without, _ := lru.New[string, time.Time](maxUnclaimed)
	return &Recorder{record: record, outcomes: outcomes, rates: rates, unclaimed: without}
}

// Write writes an event beside the object that it is about.
func (r *Recorder) Write(ctx context.Context, key export.Key, event *corev1.Event, now time.Time) {
	result := limited
	if r.admits(event, now) {
		result = r.try(ctx, key, event, now)
	}
	if result == unanswered {
		result = failed
	}
	r.outcomes.WithLabelValues(result).Inc()
}

// admits reports whether an object may have one more event, and counts it.
func (r *Recorder) admits(event *corev1.Event, now time.Time) bool {
	limit := rate.NewLimiter(rate.Every(interval), burst)
	if known, ok, _ := r.rates.PeekOrAdd(event.InvolvedObject.UID, limit); ok {
		limit = known
	}
	return limit.AllowN(now, 1)
}

// try writes an event that its object may have.
func (r *Recorder) try(ctx context.Context, key export.Key, event *corev1.Event, now time.Time) (outcome string) {
	if since, ok := r.unclaimed.Get(key.Cluster); ok && now.Sub(since) < unclaimedTime {
		return unclaimed
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.record(ctx, key, event)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // by a try whose answer did not come
		return written
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return failed
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		r.unclaimed.Add(key.Cluster, now)
		return unclaimed
	}
	log.FromContext(ctx).V(1).Info("could not write an event", "reason", event.Reason, "error", err.Error())
	return unanswered
}

// suffix is how many characters make the name of an event its own. The name is given here, and not by the API server: an event
// that is written again after a try without an answer must not be there twice.
const suffix = 10

// Build builds an event of a type (corev1.EventTypeNormal, corev1.EventTypeWarning) about an object.
func Build(about *corev1.ObjectReference, kind, reason, message string, now time.Time) *corev1.Event {
	at := metav1.NewTime(now)
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: about.Namespace, Name: NamePrefix(about.Name) + rand.String(suffix)},
		InvolvedObject: *about,
		Type:           kind, Reason: reason, Message: message,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source: corev1.EventSource{Component: "sandbar"}, ReportingController: "sandbar.dev/provider",
	}
	event.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Event"))
	return event
}

// NamePrefix leaves room for the suffix: an object's name may be as long as a name can be.
func NamePrefix(name string) string {
	const most = 200
	return name[:min(len(name), most)] + "."
}
