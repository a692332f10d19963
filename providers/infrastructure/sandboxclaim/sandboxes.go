// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxclaim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// sandboxes reads and writes Sandboxes; *instance.Sandboxes does it in kcp.
type sandboxes interface {
	// New returns an empty Sandbox, and the field of its spec that holds the template; instance.ErrNoKind while
	// there are none.
	New() (obj *unstructured.Unstructured, templateField string, err error)
	List(ctx context.Context, cluster, namespace, selector string) ([]unstructured.Unstructured, error)
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Create(ctx context.Context, key export.Key, obj *unstructured.Unstructured) error
	Remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
}

var _ sandboxes = (*instance.Sandboxes)(nil)

// owned lists the Sandboxes that a claim has made. The label finds them; whose they are, say the UID and the name. The
// attack: who may create Sandboxes writes label and UID of another's claim, to have a Sandbox of their own named in its
// status, and used as one of those that were claimed; and a copy of a Sandbox's manifest has both by mistake. Such
// objects do not count, and do not go with the claim.
func (r *reconciler) owned(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim) ([]unstructured.Unstructured, error) {
	list, err := r.sandboxes.List(ctx, key.Cluster, key.Namespace, placement.LabelClaim+"="+key.Name)
	if err != nil {
		return nil, fmt.Errorf("listing the Sandboxes of SandboxClaim %s: %w", key.Name, err)
	}
	_, field, err := r.sandboxes.New()
	if err != nil {
		return nil, err
	}
	wanted := names(claim)
	return slices.DeleteFunc(list, func(obj unstructured.Unstructured) bool {
		return !isOf(claim, &obj, field) || !slices.Contains(wanted, obj.GetName())
	}), nil
}

// isOf reports whether a Sandbox says that a claim has made it, and has a template as all of those have. One with workloads is
// never a claim's, also if its annotation says so.
func isOf(claim *sandbarv1alpha1.SandboxClaim, obj *unstructured.Unstructured, templateField string) bool {
	_, hasTemplate, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", templateField)
	return hasTemplate && obj.GetAnnotations()[placement.AnnotationClaimUID] == string(claim.UID)
}

func sandboxOf(obj *unstructured.Unstructured) (sandbox, error) {
	status, err := outcome.ReadStatus(obj)
	return sandbox{name: obj.GetName(), uid: string(obj.GetUID()), status: status, going: obj.GetDeletionTimestamp() != nil}, err
}

// build is a Sandbox of a claim.
func (r *reconciler) build(key export.Key, claim *sandbarv1alpha1.SandboxClaim, name string) (*unstructured.Unstructured, error) {
	obj, field, err := r.sandboxes.New()
	if err != nil {
		return nil, err
	}
	obj.SetNamespace(key.Namespace)
	obj.SetName(name)
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, claim.Spec.SandboxMetadata.Labels)
	maps.Copy(annotations, claim.Spec.SandboxMetadata.Annotations)
	labels[placement.LabelClaim], annotations[placement.AnnotationClaimUID] = key.Name, string(claim.UID) // ours last: they win
	// The admission policy lets the controllers name any creator. The attack: a claim whose sandboxMetadata names another
	// user; so it is the claim's own creator, whom the policy has checked, or nobody.
	delete(annotations, sandbarv1alpha1.AnnotationCreatedBy)
	if creator := claim.Annotations[sandbarv1alpha1.AnnotationCreatedBy]; creator != "" {
		annotations[sandbarv1alpha1.AnnotationCreatedBy] = creator
	}
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
	ref := claim.Spec.TemplateRef
	obj.Object["spec"] = map[string]any{
		field:                      map[string]any{"templateRef": map[string]any{"kind": ref.Kind, "name": ref.Name}},
		contract.PrewarmField:      claim.Spec.Prewarm,
		contract.ResizeField:       cmp.Or(claim.Spec.Resize, contract.ResizeRequire), // of before the field was there
		contract.StartTimeoutField: claim.Spec.ClaimTimeout,
	}
	return obj, withEnv(obj, claim)
}

// withEnv gives a Sandbox the variables of its claim.
func withEnv(obj *unstructured.Unstructured, claim *sandbarv1alpha1.SandboxClaim) error {
	if len(claim.Spec.Env) == 0 && len(claim.Spec.EnvFrom) == 0 {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&place.Binding{Env: claim.Spec.Env, EnvFrom: claim.Spec.EnvFrom})
	if err != nil {
		return errors.New("the variables of the SandboxClaim cannot be written") // not the converter's words: they may quote a value
	}
	spec, _ := obj.Object["spec"].(map[string]any)
	maps.Copy(spec, fields)
	return nil
}

// create makes a Sandbox. taken reports that there is one of the name that is not the claim's.
func (r *reconciler) create(ctx context.Context, key export.Key, claim *sandbarv1alpha1.SandboxClaim, name string) (taken bool, err error) {
	obj, err := r.build(key, claim, name)
	if err != nil {
		return false, err
	}
	its := key
	its.Name = name
	err = r.sandboxes.Create(ctx, its, obj)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			err = fmt.Errorf("creating Sandbox %s: %w", name, err)
		}
		return false, err
	}
	// It may be the claim's own: made a moment ago, by a write whose answer was lost.
	there, err := r.sandboxes.Live(ctx, its)
	switch {
	case export.IsGone(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading Sandbox %s: %w", name, err)
	}
	_, field, err := r.sandboxes.New()
	return !isOf(claim, there, field), err
}

// release takes from a Sandbox what says that it is the claim's.
func (r *reconciler) release(ctx context.Context, key export.Key, obj *unstructured.Unstructured) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": obj.GetResourceVersion(),
		"labels":          map[string]any{placement.LabelClaim: nil},
		"annotations":     map[string]any{placement.AnnotationClaimUID: nil},
	}})
	if err == nil {
		_, err = r.sandboxes.Patch(ctx, keyOf(key, obj), data)
	}
	if err != nil && !export.IsGone(err) {
		return fmt.Errorf("releasing Sandbox %s: %w", obj.GetName(), err)
	}
	return nil
}

// remove deletes a Sandbox as it was read. One that has changed since is looked at again.
func (r *reconciler) remove(ctx context.Context, key export.Key, obj *unstructured.Unstructured) error {
	if err := r.sandboxes.Remove(ctx, keyOf(key, obj), obj); err != nil && !export.IsGone(err) {
		return fmt.Errorf("deleting Sandbox %s: %w", obj.GetName(), err)
	}
	return nil
}

func keyOf(claim export.Key, obj *unstructured.Unstructured) export.Key {
	claim.Name = obj.GetName()
	return claim
}
