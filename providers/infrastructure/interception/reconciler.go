// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

const (
	// maxSteps is how many steps a look takes at most. From nothing to proxies, or back, there are about ten; more are a fight
	// with somebody, for whom the queue waits.
	maxSteps = 40
	// changedAgain is when to look again at a Service that somebody has changed meanwhile.
	changedAgain = 100 * time.Millisecond
	// resync is how often a Service that is asked for is looked at though nothing has changed: whether the copies are still there.
	resync = 10 * time.Minute
	// maxDetail is how many bytes are kept of what the runtime cluster says.
	maxDetail = 1 << 10
)

// reconciler has proxies in front of Services. It keeps nothing.
type reconciler struct {
	// reader reads the runtime cluster, live, and writer writes it.
	reader client.Reader
	writer client.Writer
	// image returns that of the proxies; empty if the operator has set none.
	image func(ctx context.Context) (string, error)
	// cache reads Namespaces of placements, but may not know of a new one.
	cache  client.Reader
	counts *counts
	now    func() time.Time
}

// Reconcile looks at one Service, and takes the steps that there are to take.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	again, err := r.reconcile(ctx, req.NamespacedName)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: changedAgain}, nil
	}
	return reconcile.Result{RequeueAfter: again}, err
}

func (r *reconciler) reconcile(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	for range maxSteps {
		view, err := r.view(ctx, name)
		if errors.Is(err, errWithdrawn) {
			r.counts.note(name, &intercept.View{})
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		r.counts.note(name, view)
		step := intercept.Next(view, r.now())
		if step.Do == intercept.Wait && step.After == 0 && len(view.Routes.Intents) > 0 {
			return resync, nil
		}
		if step.Do == intercept.Wait {
			return step.After, nil
		}
		log.FromContext(ctx).V(1).Info("a step of an interception", "namespace", name.Namespace, "service", name.Name, "step", step.Do)
		err = r.take(ctx, name, view, step)
		if apierrors.IsForbidden(err) {
			return intercept.LookAgain, r.denied(ctx, name, view, err)
		}
		if err != nil {
			return 0, fmt.Errorf("%s of Service %s: %w", step.Do, name, err)
		}
		r.counts.did(step.Do)
	}
	return changedAgain, nil
}

// denied tells that the runtime cluster refuses a step: by a right that is missing, an admission policy, or a quota.
func (r *reconciler) denied(ctx context.Context, name types.NamespacedName, v *intercept.View, why error) error {
	log.FromContext(ctx).Info("a step of an interception is refused", "namespace", name.Namespace, "service", name.Name, "error", why.Error())
	state := v.Routes.State.Denied(name.Name, why.Error()[:min(len(why.Error()), maxDetail)])
	if v.Forgetful || state.Encode() == v.Routes.State.Encode() {
		return nil
	}
	return r.patch(ctx, name.Namespace, intercept.RoutesConfigMap, map[string]any{intercept.StateKey(name.Name): state.Encode()})
}
