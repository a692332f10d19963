// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/latebinding"
)

// The variables of an instance's own (spec.env, spec.envFrom) are written to the Secret sandbar-binding of its placement, which
// each pod takes them from, and a pod that runs already gets them through its runner.
//
// The attacks: a value that is read by somebody who may read a status, an event, a log or an annotation; a Secret of
// another workspace, or one that nobody has shared; and a sandbox that has the variables of one Sandbox and is another's.
// So no error here has a value in it, Secrets are read in the object's own workspace and must have the label
// sandbar.dev/share, nothing is written to a member before it has its owner, for good, and the Secret is immutable.

// deliverer gives variables to a pod that runs; *latebinding.Deliverer does it.
type deliverer interface {
	Deliver(ctx context.Context, pod *corev1.Pod, control *corev1.Secret, values map[string][]byte) error
}

// readBinding reads the variables that an instance says it has; nil if it has none. The error is an *outcome.StartError if
// it cannot have them.
func (r *reconciler) readBinding(ctx context.Context, s *scope.Scope) (map[string][]byte, error) {
	b := place.BindingOf(s)
	if b == nil {
		return nil, nil
	}
	var template []string
	facts, err := r.podFacts(ctx, s)
	var refused *outcome.RefusalError
	switch {
	case err == nil:
		template = facts.EnvNames
	case !errors.As(err, &refused): // of one that has no pod the next step tells
		return nil, err
	}
	if err := b.CheckEnv(template); err != nil {
		return nil, r.envRefused(s, err)
	}
	var secrets []*corev1.Secret
	for _, name := range b.SecretNames() {
		secret, err := r.tenants.Secret(ctx, requestOf(s.Placement()), name)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && secret.Labels[placement.LabelShare] != placement.Shared {
			return nil, &outcome.StartError{Reason: outcome.ReasonSecretsNotShared, Again: r.triedLater(s), Message: fmt.Sprintf(
				"spec.envFrom: Secret %q is not shared with the provider: create it in this namespace with the label %s=%s, and accept the permission claim get on secrets in the workspace's APIBinding",
				name, placement.LabelShare, placement.Shared)}
		}
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s of the workspace: %w", name, err)
		}
		secrets = append(secrets, secret)
	}
	values, err := b.Values(template, secrets)
	if err != nil {
		return nil, r.envRefused(s, err)
	}
	return values, nil
}

func (r *reconciler) envRefused(s *scope.Scope, err error) error {
	var wrong *place.EnvError
	if !errors.As(err, &wrong) {
		return err
	}
	refused := &outcome.StartError{Reason: outcome.ReasonEnvRefused, Message: wrong.Problem, Failed: !wrong.Secret}
	if wrong.Secret {
		refused.Again = r.triedLater(s)
	}
	return refused
}

// triedLater is when to look again at Secrets, of whose changes nothing tells: the later, the longer it has been waited for.
func (r *reconciler) triedLater(s *scope.Scope) time.Duration {
	return min(max(r.now().Sub(s.Object().GetCreationTimestamp().Time), triedAgain), outcome.RefusedMost)
}

// ensureBinding makes the Secret with an instance's own variables, if it has any and there is none yet. Of an instance that
// is Ready nothing is read: its pods have started with it. The error is an *outcome.RefusalError if it cannot have them.
func (r *reconciler) ensureBinding(ctx context.Context, s *scope.Scope) error {
	if !place.Bound(s) || meta.IsStatusConditionTrue(s.Status().Conditions, sandbarv1alpha1.InstanceReadyCondition) {
		return nil
	}
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := r.runtime.live.Get(ctx, types.NamespacedName{Namespace: s.Placement().Namespace(), Name: placement.BindingSecret}, there)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	values, err := r.readBinding(ctx, s)
	var start *outcome.StartError
	if errors.As(err, &start) {
		return &outcome.RefusalError{Reason: start.Reason, Message: start.Message, Recheck: start.Again}
	}
	if err != nil {
		return err
	}
	return r.runtime.keepBinding(ctx, s, values)
}

// keepBinding writes the variables of a placement once.
func (c runtimeCluster) keepBinding(ctx context.Context, s *scope.Scope, values map[string][]byte) error {
	err := c.client.Create(ctx, place.BuildBinding(s, values), client.FieldOwner(fieldOwner))
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // by an earlier look at the same instance
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("creating Secret %s: %w", placement.BindingSecret, outcome.ErrTerminating)
	}
	// The API server's words about a Secret name its keys alone.
	return fmt.Errorf("creating Secret %s: %w", placement.BindingSecret, err)
}

// bind gives an instance that has just taken a member its own variables. What is left undone the next look does.
func (r *reconciler) bind(ctx context.Context, req request, warm *adopted) error {
	if err := r.runtime.keepBinding(ctx, warm.scope, warm.values); err != nil {
		return err
	}
	warm.values = nil // from here on the Secret has them
	r.deliver(ctx, req, warm.scope, warm)
	return nil
}

// finishBinding goes on with an instance that has taken a member and has not said so: it may be Ready once the command in
// its pod has its own variables. served is true while that is under way, and after the report. The error is an
// *outcome.StartError if it does not come about.
func (r *reconciler) finishBinding(ctx context.Context, req request, s *scope.Scope) (served bool, err error) {
	namespace := s.Placement().Namespace()
	if !place.Bound(s) || startUntold(s) == nil || lifecycle.Suspended(s.Object()) { // a suspended one's next pod has them
		r.deliveries.forget(namespace)
		return false, nil
	}
	d, known := r.deliveries.of(namespace)
	switch {
	case !known:
		if err := r.ensureBinding(ctx, s); err != nil {
			var refused *outcome.RefusalError
			if errors.As(err, &refused) {
				return false, &outcome.StartError{Reason: refused.Reason, Message: refused.Message, Again: refused.Recheck}
			}
			return false, err
		}
		r.deliver(ctx, req, s, nil)
		return true, nil
	case d.running:
		return true, nil
	case d.err != nil:
		if left := d.again.Sub(r.now()); left > 0 {
			return false, &outcome.StartError{Reason: outcome.ReasonEnvNotDelivered, Again: left, Message: "the sandbox has not taken spec.env and spec.envFrom: " +
				undelivered(d.err) + "; the provider tries again"}
		}
		r.deliver(ctx, req, s, d.warm)
		return true, nil
	case d.warm == nil: // by an earlier process
		return false, nil
	}
	warm := *d.warm
	warm.scope, warm.bound = s, d.done
	return true, r.serveWarm(ctx, req, &warm)
}

// errNoPod means that a placement has no pod now that could take variables.
var errNoPod = errors.New("no pod of it runs")

// undelivered says why variables were not delivered, without what only the operator is to know: addresses, and names of
// namespaces.
func undelivered(err error) string {
	var refused *latebinding.RefusedError
	if errors.As(err, &refused) {
		return refused.Error()
	}
	for _, known := range []error{errNoPod, latebinding.ErrUnreached, controlproof.ErrNoCommonKey} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "the runtime cluster did not answer"
}

// deliver has the pod of an instance get its variables, beside the worker: a command that takes its time to end holds up
// nobody else.
func (r *reconciler) deliver(ctx context.Context, req request, s *scope.Scope, warm *adopted) {
	namespace := s.Placement().Namespace()
	if !r.deliveries.begin(namespace, warm, r.now()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliveryPatience)
	r.deliveries.running.Go(func() {
		defer cancel()
		leave, err := r.deliveries.enter(ctx, s.Placement().Owner.Cluster)
		if err == nil {
			err = r.deliverNow(ctx, s)
			leave()
		}
		if err != nil {
			envDeliveriesTotal.WithLabelValues(deliveryFailed).Inc()
			log.FromContext(ctx).Info("could not deliver the variables of an instance", "cause", err.Error())
		} else {
			envDeliveriesTotal.WithLabelValues(deliveryDone).Inc()
		}
		r.deliveries.end(namespace, err, r.now())
		r.wake(req)
	})
}

func (r *reconciler) deliverNow(ctx context.Context, s *scope.Scope) error {
	in := s.Placement().Namespace()
	binding, control := &corev1.Secret{}, &corev1.Secret{}
	if err := r.runtime.live.Get(ctx, types.NamespacedName{Namespace: in, Name: placement.BindingSecret}, binding); err != nil {
		return fmt.Errorf("reading the variables: %w", err)
	}
	if err := r.runtime.client.Get(ctx, types.NamespacedName{Namespace: in, Name: placement.ControlSecret}, control); err != nil {
		return fmt.Errorf("reading the control token: %w", err)
	}
	var pods corev1.PodList // the cache does not hold their specs
	if err := r.runtime.live.List(ctx, &pods, client.InNamespace(in)); err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && len(p.Spec.Containers) > 0 && runsRunner(&p.Spec.Containers[0])
	})
	if at < 0 {
		return errNoPod
	}
	return r.runtime.env.Deliver(ctx, &pods.Items[at], control, binding.Data)
}
