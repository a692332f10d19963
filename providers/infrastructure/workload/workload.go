// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload finds and freezes the workloads of the runtime cluster that a Baseline designates.
//
// In: a Baseline that is for the workspace (baseline.Choose), and a tenant's reference. Out: a clone.Snapshot of the
// workload as it is now. Which workload a reference leads to, and whether the Baseline has it, is decided here and by
// package baseline, and nowhere else. A *clone.RefusedError says what the tenant or the operator has to change.
package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/clone"
)

// Reasons of the condition SourceResolved, beside those of package clone.
const (
	// SourceNotFound: the Baseline has no such workload.
	SourceNotFound clone.Reason = "SourceNotFound"
	// SourceNotReadable: the controllers may not read it.
	SourceNotReadable clone.Reason = "SourceNotReadable"
)

// SourceOf is the workload that a reference of a tenant's leads to. namespace is that of the object with the reference, in
// its workspace: a reference without one means it.
func SourceOf(b *sandbarv1alpha1.Baseline, ref *sandbarv1alpha1.WorkloadReference, namespace string) (clone.Source, error) {
	source := clone.Source{Kind: string(ref.Kind), Name: ref.Name}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil || gv.Empty() || gv != versionOf(ref.Kind) {
		return source, refuse(clone.SourceKindUnsupported, "sourceRef: there is no %s of %s; use %s", ref.Kind, ref.APIVersion, served())
	}
	source.Group = gv.Group
	if !slices.Contains(baseline.Kinds(&b.Spec), ref.Kind) {
		return source, refuse(clone.NotAllowed, "sourceRef.kind: Baseline %s has no workloads of the kind %s; choose one of those that it has (sandbar baselines %s)", b.Name, ref.Kind, b.Name)
	}
	alias := namespace
	if ref.Namespace != "" {
		alias = ref.Namespace
	}
	var ok bool
	if source.Namespace, ok = baseline.Namespace(&b.Spec, alias); !ok {
		return source, refuse(clone.NotAllowed, "sourceRef.namespace: Baseline %s has no namespace %s; it has %s", b.Name, alias, strings.Join(baseline.Aliases(&b.Spec), ", "))
	}
	return source, nil
}

// versionOf is the version of a kind of workload; empty for a kind that is none.
func versionOf(kind sandbarv1alpha1.BaselineWorkloadKind) schema.GroupVersion {
	switch kind {
	case sandbarv1alpha1.BaselineDeployment, sandbarv1alpha1.BaselineStatefulSet:
		return schema.GroupVersion{Group: "apps", Version: "v1"}
	case sandbarv1alpha1.BaselineRollout:
		return schema.GroupVersion{Group: "argoproj.io", Version: "v1alpha1"}
	}
	return schema.GroupVersion{}
}

func served() string {
	var kinds []string
	for _, kind := range sandbarv1alpha1.BaselineWorkloadKinds {
		kinds = append(kinds, fmt.Sprintf("%s of %s", kind, versionOf(kind)))
	}
	return strings.Join(kinds, ", ")
}

// Reader reads workloads from the API server of the runtime cluster: a cache could be of a time before the operator took
// something out of the Baseline, and copies are made rarely.
type Reader struct {
	Live client.Reader
}

// Freeze reads a workload that SourceOf has found and keeps what a copy needs of it, and the labels that it has, which are not
// nil. What the Baseline does not choose does not exist for tenants: the message is the same.
func (r Reader) Freeze(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source) (*clone.Snapshot, map[string]string, error) {
	chosen, err := chosenBy(b)
	if err != nil {
		return nil, nil, err
	}
	workload, err := r.get(ctx, b, source, source.Kind, source.Name)
	if err != nil {
		return nil, nil, err
	}
	labels := workload.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	if !chosen.Admits(workload.GetName(), labels) {
		return nil, nil, notFound(b, source)
	}
	referred, err := r.referred(ctx, b, source, workload)
	if err != nil {
		return nil, nil, err
	}
	snapshot, err := clone.Freeze(workload, referred)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what to do
	}
	return snapshot, labels, r.addClaims(ctx, b, source, snapshot)
}

// Admit refuses a workload that was frozen and that the Baseline, as it is now, does not choose by the labels that it had.
// SourceOf has asked about its kind and its namespace.
//
// The attack: a tenant who has had a workload frozen goes on giving its copies images, commands and references, and gets what
// those refer to, after the operator has taken the workload out of the Baseline.
func Admit(b *sandbarv1alpha1.Baseline, source clone.Source, labels map[string]string) error {
	chosen, err := chosenBy(b)
	if err != nil {
		return err
	}
	if !chosen.Admits(source.Name, labels) {
		return refuse(clone.NotAllowed, "sourceRef: Baseline %s does not offer %s any more, so its copy stays as it is; choose another workload (sandbar baselines %s), or ask the operator", b.Name, source, b.Name)
	}
	return nil
}

// NeedsLabels reports whether a Baseline chooses workloads by their labels.
func NeedsLabels(b *sandbarv1alpha1.Baseline) bool { return b.Spec.Workloads.Selector != nil }

func chosenBy(b *sandbarv1alpha1.Baseline) (baseline.Filter, error) {
	chosen, _, err := baseline.Filters(&b.Spec)
	if err != nil {
		return chosen, refuse(clone.NotAllowed, "Baseline %s chooses no workloads, since its selector is wrong; ask the operator to correct it", b.Name)
	}
	return chosen, nil
}

// referred reads the Deployment that has the pod template of a Rollout; nil if the workload has its own.
func (r Reader) referred(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, workload *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name, err := clone.WorkloadRef(workload)
	if err != nil || name == "" {
		return nil, err //nolint:wrapcheck // it says what to do
	}
	return r.get(ctx, b, source, string(sandbarv1alpha1.BaselineDeployment), name)
}

func (r Reader) get(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, kind, name string) (*unstructured.Unstructured, error) {
	workload := &unstructured.Unstructured{}
	workload.SetGroupVersionKind(versionOf(sandbarv1alpha1.BaselineWorkloadKind(kind)).WithKind(kind))
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: name}, workload)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // the kind Rollout may not be there
		return nil, notFound(b, source)
	case apierrors.IsForbidden(err):
		return nil, refuse(SourceNotReadable, "the provider may not read the workloads of Baseline %s now; ask the operator, who sees in the Baseline's status what to do", b.Name)
	case err != nil:
		return nil, fmt.Errorf("reading %s %s/%s: %w", kind, source.Namespace, name, err)
	}
	return workload, nil
}

// addClaims keeps the sizes and classes of the volumes that the workload names. One that is not there, or may not be read, is
// left out: package clone refuses a copy that needs it, and another one does not.
func (r Reader) addClaims(ctx context.Context, b *sandbarv1alpha1.Baseline, source clone.Source, snapshot *clone.Snapshot) error {
	if b.Spec.References.Volumes == sandbarv1alpha1.BaselineVolumesRefuse {
		return nil
	}
	for _, name := range snapshot.ClaimNames() {
		claim := &corev1.PersistentVolumeClaim{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		case err != nil:
			return fmt.Errorf("reading PersistentVolumeClaim %s/%s: %w", source.Namespace, name, err)
		default:
			snapshot.AddClaim(claim)
		}
	}
	return nil
}

func notFound(b *sandbarv1alpha1.Baseline, source clone.Source) error {
	return refuse(SourceNotFound, "sourceRef: Baseline %s has no %s; choose one of those that it has (sandbar baselines %s)", b.Name, source, b.Name)
}

func refuse(reason clone.Reason, format string, args ...any) error {
	return &clone.RefusedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
