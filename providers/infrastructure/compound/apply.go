// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	Remove(ctx context.Context, key export.Key, read *unstructured.Unstructured) error
}

// Applied is what a look has made of the part.
type Applied struct {
	// Part is the instance's own part as it is now; nil if it has none, or if it was created a moment ago.
	Part *unstructured.Unstructured
	Verdict
	// Corrected: there was a part, and it was changed.
	Corrected bool
	// Waits is after which time the part, which differs, may be corrected; zero if it does not have to be.
	Waits time.Duration
}

// Apply makes the part of an instance as the plan says. waits is after which time one that is there may be changed; zero means
// now. The error is one that a retry mends; the verdict tells of it, too.
func Apply(ctx context.Context, parts Parts, key export.Key, obj *unstructured.Unstructured, plan Plan, waits time.Duration) (Applied, error) {
	kind := plan.Part.GetKind()
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
		return Applied{Part: part, Verdict: Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf("%s %s is being deleted; another one is made when it is gone", kind, key.Name)}}, nil
	}
	applied := Applied{Part: part}
	if patch := Correction(part, plan); patch != nil {
		if waits > 0 {
			applied.Waits, applied.Verdict = waits, Verdict{Reason: ReasonApplyFailed, Message: fmt.Sprintf(
				"%s %s is changed again and again by somebody else; change the %s, which says what it has to be", kind, key.Name, obj.GetKind())}
			return applied, nil
		}
		if applied, err = correct(ctx, parts, key, part, patch); err != nil {
			return written(applied, kind, err)
		}
	}
	if applied.Verdict = plan.Refused; applied.Reason == "" {
		applied.Verdict = succeeded(kind)
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

// Remove deletes the part of an instance, and returns it for as long as it is there; nil means gone. One that is not the
// instance's own is left alone.
func Remove(ctx context.Context, parts Parts, key export.Key, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	part, err := parts.Live(ctx, key)
	switch {
	case export.IsGone(err), err == nil && !Owns(obj, part):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the part of the instance: %w", err)
	case part.GetDeletionTimestamp() == nil:
		if err := parts.Remove(ctx, key, part); err != nil && !export.IsGone(err) {
			return nil, fmt.Errorf("deleting the %s: %w", part.GetKind(), err)
		}
	}
	return part, nil
}
