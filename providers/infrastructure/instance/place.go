// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// fieldOwner owns what the provider writes, on both sides.
const fieldOwner = "sandbar"

// errTerminating means that the placement's namespace is being deleted although its instance
// lives. Its end is an event; until then nothing can be made in it.
var errTerminating = errors.New("the placement is being removed")

// runtimeCluster is what the reconciler needs of the runtime cluster.
type runtimeCluster struct {
	// client reads from the cache and writes.
	client client.Client
	// live reads from the API server.
	live client.Reader
}

// place makes the namespace with everything that isolates it. Nothing of a tenant's may run
// before all of it exists: the kro instance is made afterwards.
func (r *reconciler) place(ctx context.Context, s *scope) error {
	ingress, err := buildIngress(s)
	if err != nil {
		return err
	}
	egress, err := buildEgress(s)
	if err != nil {
		return err
	}
	if _, err := r.runtime.apply(ctx, buildNamespace(s), &corev1.Namespace{}); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	apply := func(desired, current client.Object) {
		group.Go(func() error {
			_, err := r.runtime.apply(ctx, desired, current)
			return err
		})
	}
	apply(buildQuota(s), &corev1.ResourceQuota{})
	apply(buildLimits(s), &corev1.LimitRange{})
	apply(ingress, &networkingv1.NetworkPolicy{})
	apply(egress, &networkingv1.NetworkPolicy{})
	group.Go(func() error { return r.ensureLease(ctx, s) })
	group.Go(func() error { return r.runtime.ensureSecret(ctx, s, controlToken) })
	if s.wantsPassword {
		group.Go(func() error { return r.runtime.ensureSecret(ctx, s, password) })
	}
	return group.Wait()
}

// compose makes the kro instance and returns it as it now is. A refused pod leaves the pod that
// the instance has, if it has one, and the rest of the spec holds: suspended above all.
func (r *reconciler) compose(ctx context.Context, s *scope) (*unstructured.Unstructured, error) {
	desired, current := buildInstance(s), s.newObject()
	var refused error
	if s.pod != nil {
		var complete bool
		if complete, refused = r.composePod(ctx, s, desired); !complete {
			return nil, refused
		}
	}
	written, err := r.runtime.apply(ctx, desired, current)
	if err != nil || written != nil {
		return written, errors.Join(err, refused)
	}
	return current, refused
}

// apply makes an object what it should be. It compares with the cache, reading into current,
// and writes only a difference; it returns the API server's answer, or nil when nothing was
// written.
func (c runtimeCluster) apply(ctx context.Context, desired, current client.Object) (*unstructured.Unstructured, error) {
	what := fmt.Sprintf("%s %s", desired.GetObjectKind().GroupVersionKind().Kind, client.ObjectKeyFromObject(desired))
	err := c.client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	switch {
	case err == nil && current.GetDeletionTimestamp() != nil:
		return nil, fmt.Errorf("applying %s: %w", what, errTerminating)
	case err == nil && !differs(desired, current):
		return nil, nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	config, err := applyConfiguration(desired)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", what, err)
	}
	err = c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(config),
		client.FieldOwner(fieldOwner), client.ForceOwnership)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, fmt.Errorf("applying %s: %w", what, errTerminating)
	}
	if err != nil {
		return nil, fmt.Errorf("applying %s: %w", what, err)
	}
	return config, nil
}

// ensureSecret makes a Secret with a value of the provider's once and never changes a value that
// is there.
func (c runtimeCluster) ensureSecret(ctx context.Context, s *scope, g generated) error {
	secret, current := g.build(s), &corev1.Secret{}
	err := c.client.Get(ctx, client.ObjectKeyFromObject(secret), current)
	if apierrors.IsNotFound(err) {
		err = c.client.Create(ctx, secret, client.FieldOwner(fieldOwner))
		switch {
		case err == nil:
			return nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return fmt.Errorf("creating Secret %s: %w", g.secret, errTerminating)
		case !apierrors.IsAlreadyExists(err):
			return fmt.Errorf("creating Secret %s: %w", g.secret, err)
		}
		// The cache sees labelled Secrets only, and it may lag: ask for what there is.
		err = c.live.Get(ctx, client.ObjectKeyFromObject(secret), current)
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", g.secret, err)
	}
	return c.repairSecret(ctx, g, secret, current)
}

// repairSecret gives a Secret its labels back, and a value if it has none.
func (c runtimeCluster) repairSecret(ctx context.Context, g generated, desired, current *corev1.Secret) error {
	hasValue := len(current.Data[g.key]) > 0
	if hasValue && !differs(desired, current) {
		return nil
	}
	repaired := current.DeepCopy()
	repaired.Labels = labels.Merge(current.Labels, desired.Labels)
	repaired.Annotations = labels.Merge(current.Annotations, desired.Annotations)
	if !hasValue {
		repaired.Data = desired.Data
	}
	if err := c.client.Patch(ctx, repaired, client.MergeFrom(current), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("repairing Secret %s: %w", g.secret, err)
	}
	return nil
}

// differs tells whether an object lacks one of the desired labels or annotations or has another
// spec. What others added to its metadata, kro's labels and finalizer above all, is theirs.
func differs(desired, current client.Object) bool {
	if !contains(current.GetLabels(), desired.GetLabels()) || !contains(current.GetAnnotations(), desired.GetAnnotations()) {
		return true
	}
	switch d := desired.(type) {
	case *corev1.ResourceQuota:
		return !equality.Semantic.DeepEqual(d.Spec, current.(*corev1.ResourceQuota).Spec)
	case *corev1.LimitRange:
		return !equality.Semantic.DeepEqual(d.Spec, current.(*corev1.LimitRange).Spec)
	case *networkingv1.NetworkPolicy:
		return !equality.Semantic.DeepEqual(d.Spec, current.(*networkingv1.NetworkPolicy).Spec)
	case *unstructured.Unstructured:
		// Why an instance is suspended may change, and end, without another change.
		const suspension = placement.AnnotationSuspension
		if d.GetAnnotations()[suspension] != current.GetAnnotations()[suspension] {
			return true
		}
		return !equality.Semantic.DeepEqual(d.Object["spec"], current.(*unstructured.Unstructured).Object["spec"])
	}
	return false
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// applyConfiguration is an object without the fields that only its Go type brings along.
func applyConfiguration(obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	config := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(config.Object, "metadata", "creationTimestamp")
	if _, isInstance := obj.(*unstructured.Unstructured); !isInstance {
		unstructured.RemoveNestedField(config.Object, "status")
		if spec, ok := config.Object["spec"].(map[string]any); ok && len(spec) == 0 {
			delete(config.Object, "spec")
		}
	}
	return config, nil
}
