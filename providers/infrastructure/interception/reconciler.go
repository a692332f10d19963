// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

const (
	// maxSteps is how many steps a look takes at most. From nothing to proxies, or back, there are about ten; more are a fight
	// with something on the runtime cluster, and the next look is later.
	maxSteps = 40
	// changedAgain is when to look again at a Service that somebody has changed meanwhile.
	changedAgain = 100 * time.Millisecond
	// resync is how often a Service that is asked for is looked at though nothing has changed: whether the copies are still there.
	resync = 10 * time.Minute
	// maxDetail is how many bytes are kept of what the runtime cluster says.
	maxDetail = 1 << 10
)

// errUndone means that a write was accepted and the object is not as it was written: something on the runtime cluster, a mutating webhook
// for example, has it otherwise. To write it again at once would go on for ever.
var errUndone = errors.New("what is written is changed on the way, by a mutating webhook for example")

// reconciler has proxies in front of Services. It keeps nothing.
type reconciler struct {
	// reader reads the runtime cluster, live, and writer writes it.
	reader client.Reader
	writer client.Writer
	// image returns that of the proxies; empty if the operator has set none.
	image func(ctx context.Context) (string, error)
	// cache reads Namespaces of placements, but may not know of a new one.
	cache client.Reader
	// watch tells whose a ConfigMap is.
	watch  *watch
	counts *counts
	now    func() time.Time
}

// Reconcile looks at one Service, and takes the steps that there are to take.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	again, err := r.reconcile(ctx, req.NamespacedName)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: changedAgain}, nil
	}
	if err != nil && again > 0 { // the queue would wait longer each time, and a Service without a proxy that is ready cannot
		log.FromContext(ctx).Error(err, "a look at an interception has failed", "namespace", req.Namespace, "service", req.Name)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

func (r *reconciler) reconcile(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	var view *intercept.View
	for range maxSteps {
		var err error
		view, err = r.view(ctx, name)
		if errors.Is(err, errWithdrawn) {
			r.counts.note(name, &intercept.View{})
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		r.counts.note(name, view)
		step, err := r.next(ctx, view)
		if err != nil {
			return r.retry(view), err
		}
		if step.Do == intercept.Wait {
			return waiting(view, step), nil
		}
		log.FromContext(ctx).V(1).Info("a step of an interception", "namespace", name.Namespace, "service", name.Name, "step", step.Do)
		err = r.takeWithThen(ctx, name, view, step)
		if isRefused(err) || errors.Is(err, errUndone) {
			return view.LookAgainIn(r.now()), r.denied(ctx, name, view, err)
		}
		if err != nil {
			return r.retry(view), fmt.Errorf("%s of Service %s: %w", step.Do, name, err)
		}
	}
	return view.LookAgainIn(r.now()), r.denied(ctx, name, view, errUndone)
}

// waiting is when to look again; 0 for when something changes.
func waiting(v *intercept.View, step intercept.Step) time.Duration {
	if len(v.Routes.Intents) > 0 && (step.After == 0 || step.After > resync) {
		return resync
	}
	return step.After
}

// next is the next step: the urgent one is found before all else is read.
func (r *reconciler) next(ctx context.Context, v *intercept.View) (intercept.Step, error) {
	if step, ok := intercept.Urgent(v, r.now()); ok {
		return step, nil
	}
	if err := r.complete(ctx, v); err != nil {
		return intercept.Step{}, err
	}
	return intercept.Next(v, r.now()), nil
}

// retry is when to look again after an error: 0 leaves it to the queue.
func (r *reconciler) retry(v *intercept.View) time.Duration {
	if !v.Routes.State.WithoutProxy() {
		return 0
	}
	return v.LookAgainIn(r.now())
}

// takeWithThen does a step, and the one that follows it without another look.
func (r *reconciler) takeWithThen(ctx context.Context, name types.NamespacedName, v *intercept.View, step intercept.Step) error {
	err := r.take(ctx, name, v, step)
	if err == nil {
		r.counts.did(step.Do)
	}
	follows := err == nil
	if step.Then != nil && step.Then.Do == intercept.Restore {
		follows = isRefused(err)
	}
	if step.Then == nil || !follows {
		return err
	}
	return errors.Join(err, r.takeWithThen(ctx, name, v, *step.Then))
}

// isRefused reports whether the runtime cluster has refused a write: by a right that is missing, an admission policy, a quota or a
// webhook, or since there is not room for it.
func isRefused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonInternalError:
		return true
	case metav1.StatusReasonNotFound: // an object that is gone is looked at again, but grant alone makes the ConfigMaps
		var status apierrors.APIStatus
		return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "configmaps"
	default:
		return false
	}
}

// denied tells that the runtime cluster refuses a step, or changes what it writes.
func (r *reconciler) denied(ctx context.Context, name types.NamespacedName, v *intercept.View, why error) error {
	log.FromContext(ctx).Info("a step of an interception is refused", "namespace", name.Namespace, "service", name.Name, "error", why.Error())
	said := why.Error()[:min(len(why.Error()), maxDetail)]
	state := v.Routes.State.Denied(name.Name, said)
	if errors.Is(why, errUndone) {
		state = v.Routes.State.Undone(name.Name, said)
	}
	if v.Forgetful || state.Encode() == v.Routes.State.Encode() {
		return nil
	}
	return r.patch(ctx, name.Namespace, intercept.RoutesConfigMap, map[string]any{intercept.StateKey(name.Name): state.Encode()})
}
