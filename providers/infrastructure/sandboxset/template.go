// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// templates are the SandboxTemplates of tenants; *sandboxtemplate.Templates are.
type templates interface {
	// Own reads a SandboxTemplate itself; nil if there is none.
	Own(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error)
	// Changed has all looked at that refer to a name.
	Changed(key export.Key)
}

// setOf is what a set wants, without its revision. One with a template of its own counts as a SandboxTemplate
// of its name.
func setOf(key export.Key, set *sandbarv1alpha1.SandboxSet) members.Set {
	ref, field := sandbarv1alpha1.PodTemplateRef{Kind: sandbarv1alpha1.RefSandboxTemplate, Name: set.Name}, "spec.template"
	if named := set.Spec.TemplateRef; named != nil {
		ref = sandbarv1alpha1.PodTemplateRef{Kind: cmp.Or(named.Kind, sandbarv1alpha1.RefSandboxTemplate), Name: named.Name}
		field = "spec.templateRef"
	}
	says := members.Set{Key: key, UID: set.UID, Template: ref, Field: field, Priority: set.Spec.Priority}
	says.Keep = set.Spec.ResizeOnClaim == sandbarv1alpha1.ResizeOnClaimKeep
	if set.Spec.Patch != nil {
		says.Change.Patch = string(set.Spec.Patch.Raw)
	}
	if set.Spec.Template == nil { // that of a template of its own is part of it
		says.Change.PlacementClass = set.Spec.PlacementClass
	}
	return says
}

// template is what stands for a SandboxTemplate that there is not: a set of that name with a template of its
// own. Its identity is that of the content: a set whose template changes is another SandboxTemplate.
func (r *reconciler) template(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error) {
	set, err := r.read(ctx, key)
	if err != nil || set == nil || set.DeletionTimestamp != nil {
		return nil, err
	}
	return inlineOf(set)
}

// inlineOf is the SandboxTemplate that a set's own template stands for; nil if it has none.
func inlineOf(set *sandbarv1alpha1.SandboxSet) (*sandbarv1alpha1.SandboxTemplate, error) {
	if set.Spec.Template == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	own := &sandbarv1alpha1.SandboxTemplate{ObjectMeta: set.ObjectMeta}
	own.Spec.Template, own.Spec.VolumeClaimTemplates, own.Spec.PlacementClass = set.Spec.Template, set.Spec.VolumeClaimTemplates, set.Spec.PlacementClass
	own.Spec.Runtime = set.Spec.Runtime
	raw, err := json.Marshal(own.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading SandboxSet %s: %w", set.Name, err)
	}
	sum := sha256.Sum256(raw)
	own.UID = types.UID(string(set.UID) + "-" + hex.EncodeToString(sum[:4]))
	return own, nil
}

// refers notes to which SandboxTemplate a set refers, and tells all that refer to the set's own template when that
// is another one.
func (r *reconciler) refers(key export.Key, set *sandbarv1alpha1.SandboxSet) error {
	if ref := setOf(key, set).Template; ref.Kind == sandbarv1alpha1.RefSandboxTemplate {
		to := key
		to.Name = ref.Name
		r.references.Set(key, to)
	} else {
		r.references.Drop(key)
	}
	own, err := inlineOf(set)
	if err != nil {
		return err
	}
	uid := types.UID("")
	if own != nil {
		uid = own.UID
	}
	r.standsFor(key, uid, set.Status.ObservedGeneration == 0)
	return nil
}

// standsFor notes the identity of a set's own template, empty for none. isNew is set for a set that no process has
// looked at before.
func (r *reconciler) standsFor(key export.Key, uid types.UID, isNew bool) {
	r.mu.Lock()
	was, known := r.inline[key]
	if uid == "" {
		delete(r.inline, key)
	} else {
		r.inline[key] = uid
	}
	r.mu.Unlock()
	// What an earlier process has looked at is not another one because this process starts.
	if known && was != uid || !known && uid != "" && isNew {
		r.templates.Changed(key)
	}
}

// conflict is an *outcome.RefusalError if a set's own template says something else than the SandboxTemplate of its
// name, which is the one that Sandboxes get: the set would keep pods that nobody asks for.
func (r *reconciler) conflict(ctx context.Context, key export.Key, set *sandbarv1alpha1.SandboxSet) error {
	if set.Spec.Template == nil {
		return nil
	}
	named, err := r.templates.Own(ctx, key)
	if err != nil || named == nil || named.DeletionTimestamp != nil {
		return err
	}
	if named.Spec.PlacementClass == set.Spec.PlacementClass && equality.Semantic.DeepEqual(named.Spec.Template, set.Spec.Template) &&
		equality.Semantic.DeepEqual(named.Spec.VolumeClaimTemplates, set.Spec.VolumeClaimTemplates) &&
		equality.Semantic.DeepEqual(named.Spec.Runtime, set.Spec.Runtime) {
		return nil
	}
	return &outcome.RefusalError{Reason: sandbarv1alpha1.SandboxSetNameConflict, Message: fmt.Sprintf(
		"spec.template differs from SandboxTemplate %q, which Sandboxes of that name get; give the set another name, or write spec.templateRef in its place", set.Name)}
}
