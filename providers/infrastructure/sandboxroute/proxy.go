// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/interception"
)

// proxies are asked to lead requests; interception.Store does it.
type proxies interface {
	Of(ctx context.Context, route export.Key) ([]interception.Asked, error)
	OfLive(ctx context.Context, route export.Key) ([]interception.Asked, error)
	Ask(ctx context.Context, service types.NamespacedName, intent *intercept.Intent) error
}

// lookAgainAtService is how soon a route is looked at again though nothing tells of a change: whether the Service is still one that the
// Baseline offers. A change of its labels is told.
const lookAgainAtService = 10 * time.Minute

// proxied is a Service in front of which a route asks for proxies.
type proxied struct {
	service types.NamespacedName
	// alias is what tenants call its namespace.
	alias  string
	intent *intercept.Intent
	// state is the result; nil if nobody has looked at it since it was asked for.
	state *intercept.State
}

// convergeProxies has proxies lead requests as the route says, and reports whether they do.
func (r *reconciler) convergeProxies(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute) (reconcile.Result, error) {
	r.noteGroup(key, obj)
	found := finding{}
	wanted, err := r.wantedProxies(ctx, key, obj, &found)
	if found.refused, err = refusedOf(err); err != nil {
		return reconcile.Result{}, err
	}
	if found.refused != nil {
		wanted = nil // what was led before is so no more: what is refused may be the tenant's right to it
	}
	there, err := r.proxies.Of(ctx, key)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what SandboxRoute %s asks of proxies: %w", key.Name, err)
	}
	if _, err := r.leaveProxies(ctx, there, wanted); err != nil {
		return reconcile.Result{}, err
	}
	if found.proxied, err = r.ask(ctx, there, wanted); err != nil {
		name := "no Baseline"
		if found.place != nil && found.place.Baseline != nil {
			name = found.place.Baseline.Name
		}
		if found.refused, err = refusedOf(unasked(err, name)); err != nil {
			return reconcile.Result{}, err
		}
	}
	again, err := r.report(ctx, key, obj, statusFor(obj, &found))
	if again == 0 {
		again = lookAgainAtService
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// wantedProxies is what a SandboxRoute is to ask for, sorted by Service. The error is a *route.RefusedError, or one that a retry mends.
func (r *reconciler) wantedProxies(ctx context.Context, key export.Key, obj *sandbarv1alpha1.SandboxRoute, found *finding) ([]proxied, error) {
	spec := &obj.Spec
	place, err := r.placed(ctx, key, spec, found)
	if err != nil {
		return nil, err
	}
	if place.Suspended {
		return nil, refuse(sandbarv1alpha1.RouteSuspended, "SandboxGroup %s is suspended: until it is resumed, its requests go to the Services' own pods", place.Group.GetName())
	}
	targets, aliases, err := r.targets(ctx, key, spec, place.Baseline)
	if err != nil {
		return nil, err
	}
	placed := place.ObjectMeta(obj.Name).Namespace
	backends, err := r.backends(ctx, spec, place, placed)
	if err != nil {
		return nil, err
	}
	intents, err := intercept.Intents(intercept.Input{
		Key: intercept.RouteKey{Cluster: key.Cluster, Namespace: key.Namespace, Name: key.Name}, UID: obj.UID, Created: obj.CreationTimestamp,
		Spec: spec, SandboxID: place.SandboxID, Placement: placed, Targets: targets, Backends: backends,
	})
	if err != nil {
		return nil, fmt.Errorf("what proxies are asked for: %w", err)
	}
	var wanted []proxied
	for service, intent := range intents {
		wanted = append(wanted, proxied{service: service, alias: aliases[service], intent: intent})
	}
	slices.SortFunc(wanted, func(a, b proxied) int { return cmp.Compare(a.service.String(), b.service.String()) })
	return wanted, nil
}

// targets finds the Services that the rules name, by the rule's name, and what tenants call the namespace of each.
func (r *reconciler) targets(ctx context.Context, key export.Key, spec *sandbarv1alpha1.SandboxRouteSpec, b *sandbarv1alpha1.Baseline) (
	targets map[string]types.NamespacedName, aliases map[types.NamespacedName]string, err error,
) {
	targets, aliases = map[string]types.NamespacedName{}, map[types.NamespacedName]string{}
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		field, alias := fmt.Sprintf("spec.rules[%d].targetServiceRef", i), cmp.Or(rule.TargetServiceRef.Namespace, key.Namespace)
		namespace, err := intercept.Admit(field, b, alias)
		if err != nil {
			return nil, nil, err
		}
		name := types.NamespacedName{Namespace: namespace, Name: rule.TargetServiceRef.Name}
		targets[rule.Name] = name
		if aliases[name] != "" {
			continue
		}
		aliases[name] = alias
		if err := r.checkTarget(ctx, field, name, b); err != nil {
			return nil, nil, err
		}
	}
	return targets, aliases, nil
}

// checkTarget refuses a Service that is not there, not one of the Baseline, or cannot have proxies. Of one that has some, or has had
// some, the controller of these knows better.
func (r *reconciler) checkTarget(ctx context.Context, field string, name types.NamespacedName, b *sandbarv1alpha1.Baseline) error {
	service, err := r.runtime.service(ctx, name.Namespace, name.Name)
	if err != nil {
		return err
	}
	if service == nil {
		return refuse(sandbarv1alpha1.RouteResolveFailed, "%s.name: the Baseline has no Service %s there (sandbar baselines %s)", field, name.Name, b.Name)
	}
	if err := intercept.AdmitService(field, b, service); err != nil {
		return err
	}
	if intercept.HasTraces(service) {
		return nil
	}
	if err := intercept.Check(service); err != nil {
		return refuse(sandbarv1alpha1.RouteInvalidSpec, "%s: %v", field, err)
	}
	return nil
}

// ask asks for what is wanted and not there, and returns it with the result.
func (r *reconciler) ask(ctx context.Context, there []interception.Asked, wanted []proxied) ([]proxied, error) {
	for i := range wanted {
		w := &wanted[i]
		at := slices.IndexFunc(there, func(a interception.Asked) bool {
			return a.Service == w.service && a.Intent.UID == w.intent.UID && a.Intent.Hash() == w.intent.Hash()
		})
		if at >= 0 {
			w.state = &there[at].State
			continue
		}
		if err := r.proxies.Ask(ctx, w.service, w.intent); err != nil {
			return nil, fmt.Errorf("asking for proxies of Service %s: %w", w.service.Name, err)
		}
	}
	return wanted, nil
}

// unasked is why proxies could not be asked for, if a retry alone does not mend it.
func unasked(err error, name string) error {
	switch {
	case errors.Is(err, interception.ErrNotGranted):
		return refuse(sandbarv1alpha1.RouteProviderUnavailable,
			"spec.provider: the controllers may not put proxies in front of Services of Baseline %s: ask the operator to run %s", name, baseline.GrantCommand(name))
	case errors.Is(err, interception.ErrShare):
		return refuse(sandbarv1alpha1.RouteAttachFailed, "spec.rules: %v: have fewer matches, or delete a route", interception.ErrShare)
	case errors.Is(err, interception.ErrFull):
		return refuse(sandbarv1alpha1.RouteAttachFailed, "spec.rules: %v: have fewer matches, or delete a route", interception.ErrFull)
	}
	return err
}

// leaveProxies has a route that asks for what is there ask for nothing any more but what is wanted, and reports whether the proxies of a
// Service, or the Service itself, still go by what it asked before.
//
// Where the right to say so is gone the controllers can do nothing for the Service either: the route goes, and what it has left is
// found when the right is back. So it is said again also where it was said already: a route must not wait for one of these.
func (r *reconciler) leaveProxies(ctx context.Context, there []interception.Asked, wanted []proxied) (waits bool, err error) {
	for _, a := range there {
		if slices.ContainsFunc(wanted, func(w proxied) bool { return w.service == a.Service && w.intent.UID == a.Intent.UID }) {
			continue
		}
		err := r.proxies.Ask(ctx, a.Service, a.Intent.Left())
		if errors.Is(err, interception.ErrNotGranted) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("leaving the proxies of Service %s: %w", a.Service.Name, err)
		}
		waits = true
	}
	return waits, nil
}

// leaveAll has a route ask for nothing any more, of what read says that it has asked, and reports whether it has to wait.
func (r *reconciler) leaveAll(ctx context.Context, key export.Key, read func(context.Context, export.Key) ([]interception.Asked, error)) (waits bool, err error) {
	there, err := read(ctx, key)
	if err != nil {
		return false, fmt.Errorf("reading what SandboxRoute %s asks of proxies: %w", key.Name, err)
	}
	return r.leaveProxies(ctx, there, nil)
}

// verdictOfProxies says whether requests are led as is asked.
func verdictOfProxies(all []proxied) metav1.Condition {
	pending := ""
	for _, p := range all {
		refused := ""
		if p.state != nil {
			refused = p.state.Refused[p.intent.UID]
		}
		switch {
		case refused != "":
			return metav1.Condition{Status: metav1.ConditionFalse, Reason: sandbarv1alpha1.RouteAttachFailed, Message: refused}
		case p.state != nil && p.state.Reason == sandbarv1alpha1.RouteAttached && p.state.Applied[p.intent.UID] == p.intent.Hash():
		case p.state == nil, p.state.Reason == "", p.state.Reason == sandbarv1alpha1.RouteAttached:
			pending = "the proxies of Service " + p.service.Name + " have not been given the rules yet"
		case p.state.Reason == sandbarv1alpha1.RoutePending:
			pending = p.state.Message
		default:
			return metav1.Condition{Status: metav1.ConditionFalse, Reason: p.state.Reason, Message: p.state.Message}
		}
	}
	if pending != "" {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: sandbarv1alpha1.RoutePending, Message: pending}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: sandbarv1alpha1.RouteAttached, Message: "requests with the ID are led as the rules say"}
}
