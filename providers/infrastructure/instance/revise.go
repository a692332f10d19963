// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

// rollouts grants instances the turn to take a change of the operator; rollout.Tracker does it.
type rollouts interface {
	Turn(template string, r rollout.Request) bool
	Observe(template string, o rollout.Observation) time.Duration
}

// revise writes into the desired kro instance which revision it has: the one that it has had, the
// present one if it is its turn, or that of new instances. t is the turn as far as composePod asked for
// it, and is returned completed.
func (r *reconciler) revise(s *scope.Scope, t outcome.Turn, current, desired *unstructured.Unstructured) outcome.Turn {
	if s.Revisions().Revision == "" {
		return t // kro's kind has no such field yet
	}
	exists := current != nil
	if !exists {
		current = s.NewComposed()
	}
	had, _, _ := unstructured.NestedString(current.Object, "spec", revision.Field)
	if !t.Asked && (!exists || had != s.Revisions().Revision) {
		t = r.ask(s, desired, current, exists, s.Revisions().Revision)
	}
	name := s.Revisions().Revision
	switch {
	case (t.Waits || t.Refused != nil) && exists:
		name = had
	case t.Waits:
		name = cmp.Or(s.Revisions().Former, s.Revisions().Revision)
		t.Waits = name != s.Revisions().Revision // were it up to date, the rollout might be complete, and former forgotten
	}
	spec, _ := desired.Object["spec"].(map[string]any)
	spec[revision.Field] = name
	graph, _, _ := strings.Cut(name, "-")
	labels, annotations := desired.GetLabels(), desired.GetAnnotations()
	labels[placement.LabelGraph], labels[placement.LabelRevision] = graph, name
	annotations[place.AnnotationGeneration] = strconv.FormatInt(s.Object().GetGeneration(), 10)
	if t.Updating = r.follow(s, t, desired, current, exists); !t.Updating.IsZero() {
		annotations[placement.AnnotationUpdating] = t.Updating.UTC().Format(time.RFC3339)
	}
	desired.SetLabels(labels)
	desired.SetAnnotations(annotations)
	return t
}

// keepsPod reports whether an instance with a pod keeps it, because the operator has changed what
// would be made of the tenant's words and it is not its turn yet. pod and refused are what buildPod
// returned. What the operator's change makes impossible is not said to a tenant who has changed
// nothing: the rollout says it. A pod that the tenant was told is refused needs no turn: it is the
// tenant's change. The turn is empty unless it was asked for.
func (r *reconciler) keepsPod(s *scope.Scope, current, desired *unstructured.Unstructured, former map[string]any, pod *podtemplate.Pod, refused error) (bool, outcome.Turn) {
	if s.Revisions().Revision == "" || former == nil || edited(s, current) || toldRefused(s, current) {
		return false, outcome.Turn{}
	}
	var unusable *outcome.RefusalError
	if errors.As(refused, &unusable) && templateGone(refused) {
		return true, outcome.Turn{} // the Template may come back any moment
	}
	var wanted any
	if refused == nil {
		fields, err := place.PodFields(pod, former, !lifecycle.Suspended(current))
		if err != nil {
			return false, outcome.Turn{} // composePod meets the error again and returns it
		}
		wanted = fields
	}
	if equality.Semantic.DeepEqual(wanted, any(former)) {
		return false, outcome.Turn{}
	}
	t := r.ask(s, desired, current, true, s.Revisions().Revision+"/"+hashOf(wanted))
	return t.Waits, t
}

// ask asks whether the instance takes what the operator says now.
func (r *reconciler) ask(s *scope.Scope, desired, current *unstructured.Unstructured, exists bool, want string) outcome.Turn {
	spec, _ := desired.Object["spec"].(map[string]any)
	wakes := exists && lifecycle.Suspended(current) && !lifecycle.Suspended(desired)
	takes := r.rollouts.Turn(s.Template(), rollout.Request{
		Placement: s.Placement().Namespace(), Target: s.Revisions().Revision, Want: want, Exists: exists, Changes: wakes || edited(s, current), Spec: spec,
		WasPaused: s.Revisions().Paused,
	})
	return outcome.Turn{Asked: true, Waits: !takes}
}

// edited reports whether the tenant has changed the spec since the kro instance was written.
func edited(s *scope.Scope, current *unstructured.Unstructured) bool {
	seen, ok := current.GetAnnotations()[place.AnnotationGeneration]
	return ok && !seenAs(s, seen)
}

// markRefused notes that the pod is refused which the tenant has written: the tenant was told and may
// correct it, and it must not fail the operator's rollout.
func markRefused(s *scope.Scope, desired *unstructured.Unstructured) {
	annotations := desired.GetAnnotations()
	annotations[place.AnnotationRefused] = strconv.FormatInt(s.Object().GetGeneration(), 10)
	desired.SetAnnotations(annotations)
}

// keepRefusedMark has a note of markRefused stay as it is.
func keepRefusedMark(current, desired *unstructured.Unstructured) {
	if current == nil {
		return
	}
	if mark, ok := current.GetAnnotations()[place.AnnotationRefused]; ok {
		annotations := desired.GetAnnotations()
		annotations[place.AnnotationRefused] = mark
		desired.SetAnnotations(annotations)
	}
}

// toldRefused reads the note of markRefused, which goes with the next pod that is not refused.
func toldRefused(s *scope.Scope, current *unstructured.Unstructured) bool {
	return seenAs(s, current.GetAnnotations()[place.AnnotationRefused])
}

// seenAs is Seen for a generation that is written in an annotation.
func seenAs(s *scope.Scope, generation string) bool {
	number, err := strconv.ParseInt(generation, 10, 64)
	return err == nil && s.Seen(number)
}

// follow returns since when the instance takes a change, if it was Ready before and as long as it has
// not been Ready afterwards for long enough; or since when it cannot take it. revise notes that in the
// kro instance, so that another process that takes over knows how much of the budget is in use.
func (r *reconciler) follow(s *scope.Scope, t outcome.Turn, desired, current *unstructured.Unstructured, exists bool) time.Time {
	since, ready := updatingSince(current), readyBecame(s.Status(), metav1.ConditionTrue)
	takes := exists && !t.Waits && !edited(s, current) && !lifecycle.Suspended(desired) && recomposes(s, desired, current)
	switch {
	case t.Refused != nil:
		if since.IsZero() {
			since = r.now().Truncate(time.Second)
		}
	case takes && (!since.IsZero() || !ready.IsZero()):
		since = r.now().Truncate(time.Second)
	case !since.IsZero() && (lifecycle.Suspended(desired) || rollout.Settled(s.Revisions().Rollout, since, ready, r.now())):
		since = time.Time{}
	}
	return since
}

// recomposes reports whether the kro instance is to be composed of something else.
func recomposes(s *scope.Scope, desired, current *unstructured.Unstructured) bool {
	fields := []string{revision.Field}
	if s.Pod() != nil {
		fields = append(fields, s.Pod().Fields.To)
	}
	for _, field := range fields {
		is, _, _ := unstructured.NestedFieldNoCopy(current.Object, "spec", field)
		wanted, _, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", field)
		if !equality.Semantic.DeepEqual(is, wanted) {
			return true
		}
	}
	return false
}

// observeRollout tells the rollout how the instance is, and returns after which time to look at it again.
func (r *reconciler) observeRollout(s *scope.Scope, o outcome.Outcome, fields map[string]any) (recheck time.Duration, err error) {
	if s.Revisions().Revision == "" || o.Placing != nil || o.Deleting != "" {
		return 0, nil //nolint:nilerr // the status says it
	}
	status, err := outcome.StatusOf(fields)
	if err != nil {
		return 0, err
	}
	_, resting := o.Intent(s)
	req := request{Cluster: s.Placement().Owner.Cluster, NamespacedName: types.NamespacedName{Namespace: s.Object().GetNamespace(), Name: s.Object().GetName()}}
	observation := rollout.Observation{
		Placement: s.Placement().Namespace(), Target: s.Revisions().Revision, Outdated: o.Turn.Waits, Resting: resting,
		Ready: readyBecame(status, metav1.ConditionTrue), Unready: readyBecame(status, metav1.ConditionFalse), Updating: o.Turn.Updating,
		Failing: status.Phase == sandbarv1alpha1.InstanceFailed || status.Phase == sandbarv1alpha1.InstanceDegraded,
		Wake:    func() { r.wake(req) },
	}
	refused := o.Turn.Refused
	if refused != nil {
		// It serves its tenant as before, and its status says so.
		observation.Ready, observation.Unready, observation.Failing = time.Time{}, time.Time{}, true
		observation.Refused = outcome.Shortened(outcome.OneLine(refused.Message), outcome.MaxMessage)
	}
	recheck = r.rollouts.Observe(s.Template(), observation)
	if refused != nil {
		recheck = outcome.Sooner(recheck, refused.Again(o.Turn.Updating, r.now()))
	}
	return recheck, nil
}

// updatingSince reads the note of follow.
func updatingSince(instance *unstructured.Unstructured) time.Time {
	since, _ := time.Parse(time.RFC3339, instance.GetAnnotations()[placement.AnnotationUpdating])
	return since
}

// readyBecame returns since when the condition Ready has a status; zero if it has another.
func readyBecame(status sandbarv1alpha1.InstanceStatus, ready metav1.ConditionStatus) time.Time {
	c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	if c == nil || c.Status != ready {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

func hashOf(value any) string {
	raw, _ := json.Marshal(value) //nolint:errchkjson // it is JSON already
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// revisionsOf reads what a Template and the provider say of revisions.
func revisionsOf(template *sandbarv1alpha1.Template, provider *sandbarv1alpha1.InfrastructureProvider) scope.Revisions {
	r := scope.Revisions{Rollout: rollout.SettingsOf(template.Spec.Rollout, provider.Spec.Rollout)}
	if status := template.Status.Rollout; status != nil {
		r.Revision, r.Former, r.Paused = status.Revision, status.Former, status.Phase == sandbarv1alpha1.RolloutPaused
	}
	if since := provider.Status.Runtime.NotComposingSince; since != nil {
		r.NotComposing = since.Time
	}
	return r
}
