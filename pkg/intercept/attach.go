// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

func (s *State) refuse(err error) {
	var refused *route.RefusedError
	if errors.As(err, &refused) {
		s.say(refused.Reason, refused.Message)
		return
	}
	s.say(sandbarv1alpha1.RouteAttachFailed, err.Error())
}

// attach is the next step in: the document, the proxies and the Service behind them, and, once both are ready, the switch.
func (v *View) attach(s *State, now time.Time) Step {
	s.Draining = nil
	v.noteChange(s, now)
	if step, left := v.leaveAlone(s, now); left {
		return step
	}
	owned := AsOwned(v.Service, v.Behind)
	wanted, doc := render(owned, v.ownBehind(), v.Image), documentOf(owned, v.ownBehind(), v.Routes.Intents, s.Applied)
	s.Refused = doc.Refused
	if s.Tried != "" && s.Tried != wanted.deployment.Annotations[annotationSpec] {
		s.forgive() // others have not failed yet
	}
	if IsIntercepted(v.Service) && v.hasOtherPorts(wanted.deployment) {
		return v.restore(s)
	}
	// The document has the address of the Service behind. Routes do not wait for it to leave.
	if v.Behind != nil || len(v.leaving()) > 0 {
		if step, ok := v.instruct(s, doc); ok {
			return step
		}
	}
	if step, ok := v.damp(s, now); ok {
		return step
	}
	if step, ok := v.prepare(s, wanted); ok {
		return step
	}
	if IsIntercepted(v.Service) {
		return v.keep(s, now)
	}
	return v.begin(s, doc, now)
}

// damp is the step of a Service to which proxies would come too soon after they have gone; ok is false for another one.
//
// The attack: a tenant deletes its route and makes it again all the time, and the requests of everybody change sides each time.
func (v *View) damp(s *State, now time.Time) (step Step, ok bool) {
	until := s.dampedUntil()
	if IsIntercepted(v.Service) || !isFuture(until, now) {
		return Step{}, false
	}
	s.say(sandbarv1alpha1.RoutePending, fmt.Sprintf("the proxies of Service %s have come and gone %d times in a row: the next ones come at %s",
		v.Name.Name, s.Detaches, until.UTC().Format(time.RFC3339)))
	return Step{Do: Wait, After: until.Sub(now)}, true
}

// instruct is the first step to a document that says what is asked for, and to routes that may go because it does not have their rules.
// It comes before the proxies' own objects: where one of these is refused the proxies that there are still follow the document.
func (v *View) instruct(s *State, doc Document) (step Step, ok bool) {
	if v.Document != doc.Text {
		return Step{Do: WriteDocument, Text: doc.Text}, true
	}
	if IsIntercepted(v.Service) && v.readyProxies() > 0 {
		s.Applied = doc.Applied
	}
	if uids := v.leaving(); len(uids) > 0 {
		return Step{Do: DropIntents, UIDs: uids}, true
	}
	return Step{}, false
}

// noteChange notes that somebody else has changed the selector: once it is written again, twice within ConflictWithin it is left. That it
// was switched is known from the state, or from the annotation where the process has ended, or the write failed, before the state
// said so.
func (v *View) noteChange(s *State, now time.Time) {
	if IsIntercepted(v.Service) || s.Conflict != nil || !s.Switched && !HasTraces(v.Service) {
		return
	}
	s.Switched, s.Applied = false, nil
	if s.Reapplied != nil && left(s.Reapplied, ConflictWithin, now) > 0 {
		s.Conflict = stamp(now)
		s.say(sandbarv1alpha1.RouteOwnershipConflict, fmt.Sprintf(
			"%s writes the selector of Service %s again and again, and Sandbar leaves it alone for %s: ask the operator to have %[1]s ignore spec.selector of the Service",
			ManagerOf(v.Service), v.Name.Name, ConflictFor))
		return
	}
	s.Reapplied = stamp(now)
}

// leaveAlone is the step while the Service is somebody else's; left is false if it is not.
func (v *View) leaveAlone(s *State, now time.Time) (step Step, alone bool) {
	if s.Conflict == nil {
		return Step{}, false
	}
	rest := left(s.Conflict, ConflictFor, now)
	if rest <= 0 || IsIntercepted(v.Service) {
		s.Conflict, s.Reapplied = nil, nil
		return Step{}, false
	}
	if uids := v.leaving(); len(uids) > 0 {
		return Step{Do: DropIntents, UIDs: uids}, true
	}
	return Step{Do: Wait, After: rest}, true
}

// hasOtherPorts reports whether the proxies that there are listen elsewhere than where the Service sends requests now.
func (v *View) hasOtherPorts(wanted *appsv1.Deployment) bool {
	return v.Deployment != nil && v.Deployment.Annotations[annotationPorts] != wanted.Annotations[annotationPorts]
}

// prepare is the first step to what has to be there before the switch; ok is false if all of it is.
func (v *View) prepare(s *State, wanted objects) (step Step, ok bool) {
	if name := v.foreign(); name != "" {
		s.say(sandbarv1alpha1.RouteOwnershipConflict, name+", which Sandbar needs for the proxies, is somebody else's: ask the operator to give it another name")
		return Step{Do: Wait, After: LookAgain}, true
	}
	switch {
	case v.Behind == nil:
		return Step{Do: Create, Object: wanted.behind}, true
	case !isBehind(v.Behind, wanted.behind):
		return Step{Do: Update, Object: overBehind(v.Behind, wanted.behind)}, true
	case v.Budget == nil:
		return Step{Do: Create, Object: wanted.budget}, true
	case !isBudget(v.Budget, wanted.budget):
		wanted.budget.ResourceVersion = v.Budget.ResourceVersion
		return Step{Do: Update, Object: wanted.budget}, true
	case v.Deployment == nil:
		return Step{Do: Create, Object: wanted.deployment}, true
	case !isDeployment(v.Deployment, wanted.deployment):
		wanted.deployment.ResourceVersion = v.Deployment.ResourceVersion
		return Step{Do: Update, Object: wanted.deployment}, true
	}
	return Step{}, false
}

// ownBehind is the Service behind the proxies, nil if it is not there or somebody else's.
func (v *View) ownBehind() *corev1.Service {
	if v.Behind == nil || v.isForeign(v.Behind) {
		return nil
	}
	return v.Behind
}

func (v *View) isForeign(obj metav1.Object) bool {
	return obj.GetLabels()[LabelService] != v.Name.Name || !IsOurs(obj.GetLabels())
}

// foreign is what has the name of an object of ours and is somebody else's.
func (v *View) foreign() string {
	switch {
	case v.Behind != nil && v.isForeign(v.Behind):
		return "Service " + v.Behind.Name
	case v.Deployment != nil && v.isForeign(v.Deployment):
		return "Deployment " + v.Deployment.Name
	case v.Budget != nil && v.isForeign(v.Budget):
		return "PodDisruptionBudget " + v.Budget.Name
	}
	return ""
}

// overBehind is the Service behind the proxies with what is to be changed: its addresses are the API server's.
func overBehind(is, wanted *corev1.Service) *corev1.Service {
	next := is.DeepCopy()
	next.Labels = wanted.Labels
	next.Spec.Type, next.Spec.Selector, next.Spec.Ports = wanted.Spec.Type, wanted.Spec.Selector, wanted.Spec.Ports
	next.Spec.SessionAffinity, next.Spec.SessionAffinityConfig = wanted.Spec.SessionAffinity, nil
	next.Spec.PublishNotReadyAddresses, next.Spec.TrafficDistribution = wanted.Spec.PublishNotReadyAddresses, wanted.Spec.TrafficDistribution
	return next
}

// keep is the step of a Service whose requests go to proxies: it lets them if one is ready. Urgent ends it if none is.
func (v *View) keep(s *State, now time.Time) Step {
	if v.readyProxies() == 0 {
		return Step{Do: Wait, After: v.LookAgainIn(now)}
	}
	s.attached()
	if s.RetryAfter == nil {
		return Step{Do: Wait}
	}
	if rest := left(s.RetryAfter, ForgetAfter, now); rest > 0 {
		return Step{Do: Wait, After: rest}
	}
	s.forgive()
	return Step{Do: Wait}
}

// attached notes that the requests of the Service go to proxies that have their document.
func (s *State) attached() {
	s.Switched, s.Pending = true, nil
	s.say(sandbarv1alpha1.RouteAttached, "")
}

// forgive has the next failure of the proxies be the first one.
func (s *State) forgive() { s.Failures, s.RetryAfter, s.Tried = 0, nil, "" }

// begin is the step of a Service that is to be switched. doc is what its proxies do. That it was switched is written without another look:
// somebody who writes the selector back before that one would not be told from the owner who has not been asked yet.
func (v *View) begin(s *State, doc Document, now time.Time) Step {
	s.Applied, s.NotReady, s.ReadyAgain = nil, nil, nil
	if isFuture(s.RetryAfter, now) {
		return Step{Do: Wait, After: s.RetryAfter.Sub(now)}
	}
	if s.Pending == nil {
		s.Pending = stamp(now)
	}
	rest := left(s.Pending, PendingFor, now)
	switch {
	case !isRolledOut(v.Deployment) && rest > 0:
		if s.Failures == 0 {
			s.say(sandbarv1alpha1.RoutePending, "the proxies of Service "+v.Name.Name+" are being started")
		}
		return Step{Do: Wait, After: rest}
	case !isRolledOut(v.Deployment):
		s.say(sandbarv1alpha1.RouteProxyNotReady, v.whyNotReady())
		return Step{Do: Wait}
	case v.BehindReady == 0:
		s.say(sandbarv1alpha1.RoutePending, "Service "+v.Name.Name+" has no pod of its own that is ready")
		return Step{Do: Wait}
	}
	after := *s
	after.Applied = doc.Applied
	after.attached()
	return Step{Do: Switch, Object: Switched(v.Service, v.Behind), Then: new(writing(&after))}
}

// isRolledOut reports whether all proxies are of the newest version, and ready.
func isRolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas >= Replicas &&
		d.Status.Replicas == d.Status.UpdatedReplicas && d.Status.ReadyReplicas >= Replicas
}

// whyNotReady says what tenants may know of proxies that are not ready. What the cluster says of their pods is the operator's.
func (v *View) whyNotReady() string {
	return "the proxies of Service " + v.Name.Name + " are not ready, and its requests go to its own pods; it is tried again. If it stays: ask the operator"
}

func isFuture(at *metav1.Time, now time.Time) bool { return at != nil && now.Before(at.Time) }
