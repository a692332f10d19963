// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// Reasons of Applied.
const (
	reasonApplied     = "ApplySucceeded"
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonActivityNotVisible: the spec ends what nobody uses, and use cannot be seen.
	ReasonActivityNotVisible = "ActivityNotVisible"
	reasonNotAllowed         = "NotAllowed"
	ReasonNameTaken          = "NameTaken"
	ReasonApplyFailed        = "ApplyFailed"
)

// Parts reads and writes the parts of compound instances; *export.Objects does it in kcp.
type Parts interface {
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Create(ctx context.Context, key export.Key, obj *unstructured.Unstructured) error
	// Known reports whether the watch shows an object. It asks nobody, and may be a moment behind.
	Known(key export.Key) bool
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	Remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error
}

// Applied is what a look has made of one part.
type Applied struct {
	// Part is the instance's own part of the kind as it is now; nil if it has none, or if it was created a moment ago.
	Part *unstructured.Unstructured
	Verdict
	// Corrected: there was a part, and it was changed, or deleted since another one has to take its place.
	Corrected bool
	// Waits is after which time to look again, since the part, which differs, may be corrected then; zero if it does not have to be.
	Waits time.Duration
}

// goes reports whether the part is being deleted.
func (a Applied) goes() bool { return a.Part != nil && a.Part.GetDeletionTimestamp() != nil }

// Apply makes a part of an instance as the plan says. waits is after which time one that is there may be changed; zero means
// now. The error is one that a retry mends; the verdict tells of it, too.
func Apply(ctx context.Context, parts Parts, key export.Key, obj *unstructured.Unstructured, plan Plan, waits time.Duration) (Applied, error) {
	kind := plan.Kind
	if plan.Part == nil {
		part, err := Remove(ctx, parts, key, obj)
		if err != nil {
			return Applied{}, err
		}
		return Applied{Part: part, Verdict: succeeded(kind)}, nil
	}
	part, err := parts.Live(ctx, key)
	switch {
	case export.IsGone(err) && plan.Refused.Reason != "":
		return Applied{Verdict: plan.Refused}, nil
	case export.IsGone(err):
		// One that somebody has made in between is looked at in the next look: it is not known to be the instance's.
		return written(Applied{}, kind, parts.Create(ctx, key, plan.Part.DeepCopy()))
	case err != nil:
		return Applied{}, fmt.Errorf("reading the %s: %w", kind, err)
	case !Owns(obj, part):
		return Applied{Verdict: Verdict{Reason: ReasonNameTaken, Message: fmt.Sprintf(
			"there is another %s %s, which this %s has not made and leaves alone; delete it, or create this %[3]s under another name", kind, key.Name, obj.GetKind())}}, nil
	case part.GetDeletionTimestamp() != nil:
		return Applied{Part: part, Verdict: replaced(kind, key)}, nil
	}
	return bring(ctx, parts, key, obj, plan, part, waits)
}

// bring makes a part that is there as the plan says.
func bring(ctx context.Context, parts Parts, key export.Key, obj *unstructured.Unstructured, plan Plan, part *unstructured.Unstructured, waits time.Duration) (applied Applied, err error) {
	applied = Applied{Part: part}
	patch := Correction(part, plan)
	switch {
	case patch != nil && waits > 0:
		applied.Waits, applied.Verdict = waits, Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf(
			"%s %s is changed again and again by somebody else; change the %s, which says what it has to be", plan.Kind, key.Name, obj.GetKind())}
		return applied, nil
	case plan.replaces(part):
		if applied.Part, err = remove(ctx, parts, key, part); err != nil {
			return Applied{}, err
		}
		applied.Corrected, applied.Verdict = true, replaced(plan.Kind, key)
		return applied, nil
	case patch != nil:
		if applied, err = correct(ctx, parts, key, part, patch); err != nil {
			return written(applied, plan.Kind, err)
		}
	}
	if applied.Verdict = plan.Refused; applied.Reason == "" {
		applied.Verdict = succeeded(plan.Kind)
	}
	return applied, nil
}

func correct(ctx context.Context, parts Parts, key export.Key, part *unstructured.Unstructured, patch map[string]any) (Applied, error) {
	data, err := json.Marshal(patch)
	if err != nil {
		return Applied{Part: part}, fmt.Errorf("encoding the change: %w", err)
	}
	changed, err := parts.Patch(ctx, key, data)
	if err != nil {
		return Applied{Part: part}, err //nolint:wrapcheck // written says what it is about
	}
	return Applied{Part: changed, Corrected: true}, nil
}

func replaced(kind string, key export.Key) Verdict {
	return Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf("%s %s is being deleted; another one is made when it is gone", kind, key.Name)}
}

func succeeded(kind string) Verdict {
	return Verdict{OK: true, Reason: reasonApplied, Message: fmt.Sprintf("the %s says what the spec says", kind)}
}

// written says what a write of a part has come to. What the workspace refuses is told in its words, which name the field. Of
// what another try mends nothing is told.
func written(applied Applied, kind string, err error) (Applied, error) {
	switch {
	case err == nil:
		applied.Verdict = succeeded(kind)
		return applied, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		applied.Verdict = Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf("the workspace does not take the %s: %s; the provider tries again", kind, outcome.OneLine(err.Error()))}
	}
	return applied, fmt.Errorf("making the %s: %w", kind, err)
}

// Unwritten is what is told of an instance of which nothing was told yet, while its part can be neither read nor written.
func Unwritten(kind string) Verdict {
	return Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf("the workspace does not serve the %s now; the provider tries again", kind)}
}

// NotFollowed is what is told while the provider offers the kind of parts and does not follow its objects yet.
func NotFollowed(kind string) Verdict {
	return Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf("waiting until the provider follows the kind %s; if that lasts, ask the operator to look at its log", kind)}
}

// NotOffered is what is told while the provider does not offer the kind of parts.
func NotOffered(template string) Verdict {
	return Verdict{Reason: ReasonApplyFailed, Message: "the provider offers no copies of workloads; ask the operator to apply the Template " + template}
}

// Remove deletes a part of an instance, and returns it for as long as it is there, as one that is being deleted; nil means gone. One that is not the
// instance's own is left alone.
func Remove(ctx context.Context, parts Parts, key export.Key, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	part, err := parts.Live(ctx, key)
	switch {
	case export.IsGone(err), err == nil && !Owns(obj, part):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the part of the instance: %w", err)
	}
	return remove(ctx, parts, key, part)
}

func remove(ctx context.Context, parts Parts, key export.Key, part *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if part.GetDeletionTimestamp() != nil {
		return part, nil
	}
	if err := parts.Remove(ctx, key, part); export.IsGone(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("deleting the %s: %w", part.GetKind(), err)
	}
	part = part.DeepCopy()
	part.SetDeletionTimestamp(new(metav1.Now()))
	return part, nil
}
