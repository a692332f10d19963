// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// View is all that is known of one Service and its proxies: what was read, live.
type View struct {
	Name types.NamespacedName
	// Service is the live one, Behind the one that has its original pods; nil if there is none.
	Service, Behind *corev1.Service
	Deployment      *appsv1.Deployment
	Budget          *policyv1.PodDisruptionBudget
	// Document is that of the proxies; empty if there is none.
	Document string
	Routes   Routes
	// Image is that of the proxies; empty if the operator has set none.
	Image string
	// BehindReady is how many endpoints of Behind are ready, and OwnReady how many of the Service that are not proxies.
	BehindReady, OwnReady int
	// Forgetful is set where there is no RoutesConfigMap: nothing asks for proxies, and no state can be written.
	Forgetful bool
	// ProxyServes is set while the endpoints of the Service have a proxy among them, and ProxyRuns while there is a pod of one.
	ProxyServes, ProxyRuns bool
}

// Action is what a Step does. Each but Wait writes one object once.
type Action string

// The actions.
const (
	// Wait: there is nothing to do until something changes, or Step.After has passed.
	Wait Action = "wait"
	// WriteState and DropState write and remove the State.
	WriteState Action = "write the state"
	DropState  Action = "drop the state"
	// WriteDocument and DropDocument write and remove the document.
	WriteDocument Action = "write the document"
	DropDocument  Action = "drop the document"
	// DropIntents removes the intents of Step.UIDs.
	DropIntents Action = "drop intents"
	// Create, Update and Delete are about Step.Object.
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
	// Switch and Restore have the live Service become Step.Object (Patch), under the version that was read.
	Switch  Action = "switch"
	Restore Action = "restore"
)

// Step is the next thing to do.
type Step struct {
	Do Action
	// Object is what is written, as it is to be; one that is deleted as it was read.
	Object metav1.Object
	// Text is the document or the state.
	Text string
	UIDs []types.UID
	// After is when to look again; 0 for when something changes.
	After time.Duration
	// Then is what follows without another look; nil for most. A Restore follows a WriteState that the API server refuses: the Service
	// must not wait for room in a ConfigMap. A WriteState follows a Restore that comes before all else.
	Then *Step
}

// Urgent is the step by which a Service whose requests reach nobody gets its own pods back, or by which the time is remembered since
// which they do not; ok is false if there is none. It needs of the View no more than Name, Service, Behind, Deployment, Routes and
// Forgetful, so that nothing else that cannot be read or written stands in its way. It comes before Next.
func Urgent(v *View, now time.Time) (step Step, ok bool) {
	state := v.Routes.State
	step, ok = v.urgent(&state, now)
	switch {
	case ok && !IsIntercepted(v.Service):
		if v.hasNews(&state) {
			step.Then = new(writing(&state))
		}
		return step, true
	case ok:
		return v.remembering(&state, step), true
	case !v.hasNews(&state):
		return Step{}, false
	case v.readyProxies() > 0:
		return writing(&state), true
	}
	// A time that cannot be remembered does not pass.
	step = v.restore(&State{})
	return v.remembering(&state, step), true
}

// Next is the next step from what there is to what the routes ask for. It is asked again after each, with what there is then: a process
// that ends between any two steps leaves nothing that the next one would not go on from.
func Next(v *View, now time.Time) Step {
	if step, ok := Urgent(v, now); ok {
		return step
	}
	state := v.Routes.State
	return v.remembering(&state, v.next(&state, now))
}

func (v *View) hasNews(s *State) bool {
	return !v.Forgetful && s.Encode() != v.Routes.State.Encode()
}

// remembering is a step, or before it the one that writes the state.
func (v *View) remembering(s *State, step Step) Step {
	if !v.hasNews(s) {
		return step
	}
	first := writing(s)
	if step.Do == Restore {
		first.Then = &step
	}
	return first
}

func writing(s *State) Step {
	if s.isZero() {
		return Step{Do: DropState}
	}
	return Step{Do: WriteState, Text: s.Encode()}
}

// urgent is the step of a Service that has neither its own pods nor a proxy that is ready. Without one it notes since when.
func (v *View) urgent(s *State, now time.Time) (step Step, ok bool) {
	if v.Service == nil || v.Service.DeletionTimestamp != nil {
		return Step{}, false
	}
	if _, err := Restored(v.Service, v.Behind); err != nil {
		return Step{}, false // there is nothing that could be done
	}
	switch {
	case standingOf(v.Service) == merged:
		// It chooses no pod, so that each request to it fails: before all else, also before it is noted, the owner's selector comes back.
		v.noteChange(s, now)
		return v.restore(s), true
	case !v.IsWanted():
		return Step{}, false
	case !IsIntercepted(v.Service) && HasTraces(v.Service):
		// Somebody has written a selector of their own over that of the proxies: the annotation goes with the note of it, so that it is
		// noted once.
		v.noteChange(s, now)
		return v.restore(s), true
	case !IsIntercepted(v.Service):
		return Step{}, false
	case isFuture(s.RetryAfter, now):
		return v.restore(s), true
	case v.readyProxies() > 0:
		s.noteReady(now)
		return Step{}, false
	case !s.WithoutProxy():
		s.noteNotReady(now)
		return Step{}, false
	case left(s.NotReady, FailOpenAfter, now) > 0:
		return Step{}, false
	}
	s.Failures++
	s.Tried = ""
	if v.Deployment != nil {
		s.Tried = v.Deployment.Annotations[annotationSpec]
	}
	s.RetryAfter, s.NotReady, s.ReadyAgain, s.Applied = stamp(now.Add(backoff(s.Failures))), nil, nil, nil
	s.say(sandbarv1alpha1.RouteProxyNotReady, v.whyNotReady())
	return v.restore(s), true
}

// readyProxies is how many proxies are ready.
func (v *View) readyProxies() int32 {
	if v.Deployment == nil {
		return 0
	}
	return v.Deployment.Status.ReadyReplicas
}

// LookAgainIn is when to look again at a Service of which a step could not be done: LookAgain, or earlier if its proxies have to be ready
// by then.
func (v *View) LookAgainIn(now time.Time) time.Duration {
	if s := &v.Routes.State; s.WithoutProxy() {
		return min(LookAgain, max(time.Second, left(s.NotReady, FailOpenAfter, now)))
	}
	return LookAgain
}

func (v *View) next(s *State, now time.Time) Step {
	if v.Service == nil || v.Service.DeletionTimestamp != nil {
		*s = State{Draining: s.Draining}
		s.say(sandbarv1alpha1.RouteResolveFailed, "there is no Service "+v.Name.Name)
		return v.dismantle(s, now, false)
	}
	switch err := v.obstacle(); {
	case !v.IsWanted():
		s.reset(now)
		return v.detach(s, now)
	case err != nil:
		s.reset(now)
		s.refuse(err)
		return v.detach(s, now)
	}
	return v.attach(s, now)
}

// IsWanted reports whether a route asks for the proxies.
func (v *View) IsWanted() bool { return len(v.leaving()) < len(v.Routes.Intents) }

func (v *View) leaving() (uids []types.UID) {
	for _, intent := range v.Routes.Intents {
		if intent.Leaving {
			uids = append(uids, intent.UID)
		}
	}
	return uids
}

// obstacle is why the Service cannot have proxies.
func (v *View) obstacle() error {
	if v.Image == "" {
		return refuse(sandbarv1alpha1.RouteProviderUnavailable, "the provider has no image for proxies: ask the operator to set spec.images.%s of the InfrastructureProvider", Image)
	}
	owned := AsOwned(v.Service, v.Behind)
	if len(owned.Spec.Selector) == 0 && IsIntercepted(v.Service) {
		return refuse(sandbarv1alpha1.RouteAttachFailed, "Service %s: %v", v.Name.Name, ErrSelectorLost)
	}
	return Check(owned)
}

// restore is the step by which the Service has its own pods again. Where nobody knows them there is nothing to do.
func (v *View) restore(s *State) Step {
	s.Switched = false
	restored, err := Restored(v.Service, v.Behind)
	if err != nil {
		s.say(sandbarv1alpha1.RouteAttachFailed, "Service "+v.Name.Name+": "+err.Error())
		return Step{Do: Wait}
	}
	return Step{Do: Restore, Object: restored}
}
