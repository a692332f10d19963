// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Reasons of the conditions.
const (
	reasonAccepted       = "Accepted"
	reasonInvalid        = "InvalidTemplate"
	reasonKindTaken      = "KindTaken"
	reasonNameTaken      = "NameTaken"
	reasonImageMissing   = "ImageMissing"
	reasonIncompatible   = "IncompatibleSchema"
	reasonNarrowing      = "NarrowingSchema"
	reasonTooMany        = "TooManyRevisions"
	reasonRefused        = "GraphRefused"
	reasonWaitingForKro  = "WaitingForKro"
	reasonPublished      = "Published"
	reasonSchemaRefused  = "SchemaRefused"
	reasonExported       = "Exported"
	reasonExportMissing  = "ExportMissing"
	reasonExportNotReady = "ExportNotReady"
	reasonPolicyMissing  = "PolicyMissing"
	reasonWithdrawn      = "Withdrawn"
	reasonPending        = "Pending"
	reasonReady          = "Ready"
	reasonPrevious       = "PreviousGeneration"
	reasonInUse          = "InUse"
	reasonDeleting       = "Deleting"
)

// phases are the conditions that must be true, in this order, for Ready to be.
var phases = []string{
	sandbarv1alpha1.TemplateGraphAccepted, sandbarv1alpha1.TemplateSchemaPublished, sandbarv1alpha1.TemplateExported,
}

func setCondition(tmpl *sandbarv1alpha1.Template, condition string, status metav1.ConditionStatus, reason, format string, args ...any) {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	meta.SetStatusCondition(&tmpl.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: reason, Message: message, ObservedGeneration: tmpl.Generation,
	})
}

// summarize derives Ready from the other conditions; see the package comment for a Template
// whose last change was refused.
func summarize(tmpl *sandbarv1alpha1.Template) {
	var blocking *metav1.Condition
	for _, phase := range phases {
		c := meta.FindStatusCondition(tmpl.Status.Conditions, phase)
		if c == nil {
			setCondition(tmpl, phase, metav1.ConditionUnknown, reasonPending, "waits for what comes before it")
			c = meta.FindStatusCondition(tmpl.Status.Conditions, phase)
		}
		if blocking == nil && (c.Status != metav1.ConditionTrue || c.ObservedGeneration != tmpl.Generation || c.Reason == reasonNarrowing) {
			blocking = c
		}
	}
	if blocking == nil {
		setCondition(tmpl, sandbarv1alpha1.TemplateReady, metav1.ConditionTrue, reasonReady,
			"a workspace with an APIBinding to the export can create %s", tmpl.Status.Resource)
		return
	}
	exported := meta.FindStatusCondition(tmpl.Status.Conditions, sandbarv1alpha1.TemplateExported)
	if exported.Status == metav1.ConditionTrue && exported.ObservedGeneration != tmpl.Generation && exported.Reason != reasonNarrowing {
		meta.SetStatusCondition(&tmpl.Status.Conditions, metav1.Condition{
			Type: sandbarv1alpha1.TemplateReady, Status: metav1.ConditionTrue, Reason: reasonPrevious,
			Message: fmt.Sprintf("tenants still get generation %d of this Template; generation %d is held up: %s: %s",
				exported.ObservedGeneration, tmpl.Generation, blocking.Type, blocking.Message),
			ObservedGeneration: exported.ObservedGeneration,
		})
		return
	}
	setCondition(tmpl, sandbarv1alpha1.TemplateReady, metav1.ConditionFalse, blocking.Reason, "%s: %s", blocking.Type, blocking.Message)
}

// patchStatus writes the status if it has changed. A Template that is gone has none to write.
func (r *reconciler) patchStatus(ctx context.Context, before, tmpl *sandbarv1alpha1.Template) error {
	tmpl.Status.ObservedGeneration = tmpl.Generation
	if equality.Semantic.DeepEqual(before.Status, tmpl.Status) {
		return nil
	}
	// The base has the current metadata, so that nothing but the status is in the patch.
	base := tmpl.DeepCopy()
	base.Status = before.Status
	if before.Status.ObservedGeneration == 0 {
		// A first status is written whole: a count of zero differs from none.
		base.Status.Instances = -1
	}
	if err := r.kcp.Status().Patch(ctx, tmpl, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of Template %s: %w", tmpl.Name, err)
	}
	return nil
}

// setFinalizer adds or removes our finalizer and keeps the status that this reconcile has
// computed so far, which a patch's answer would overwrite.
func (r *reconciler) setFinalizer(ctx context.Context, tmpl *sandbarv1alpha1.Template, present bool) error {
	if controllerutil.ContainsFinalizer(tmpl, Finalizer) == present {
		return nil
	}
	updated := tmpl.DeepCopy()
	if present {
		controllerutil.AddFinalizer(updated, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(updated, Finalizer)
	}
	// The lock keeps another's finalizer that was added since we read.
	patch := client.MergeFromWithOptions(tmpl, client.MergeFromWithOptimisticLock{})
	err := r.kcp.Patch(ctx, updated, patch)
	if !present && apierrors.IsNotFound(err) {
		return nil // removed before, and the cache has not seen it go
	}
	if err != nil {
		return fmt.Errorf("setting the finalizer of Template %s: %w", tmpl.Name, err)
	}
	tmpl.ObjectMeta = updated.ObjectMeta
	return nil
}
