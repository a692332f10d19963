// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"context"
	"errors"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
)

// maxAccepted bounds the revisions of which it is remembered that their pod was tried; others are tried again.
const maxAccepted = 4096

// tries ask the runtime cluster what it would say of a pod; *sandboxtemplate.Tries do.
type tries interface {
	Try(ctx context.Context, level string, pod *podtemplate.Pod) (why string, err error)
}

// revise finds out what the members of a set would be now. A set whose patch is refused goes on with the one that was
// accepted before it, and refused says why; after a start of the provider, which knows of none, the error does.
func (r *reconciler) revise(ctx context.Context, says members.Set) (now members.Set, refused *outcome.RefusalError, err error) {
	now, err = r.made(ctx, says)
	r.mu.Lock()
	former, known := r.patches[says.UID]
	if err == nil {
		r.patches[says.UID] = says.Change
	}
	r.mu.Unlock()
	if !errors.As(err, &refused) || now.TemplateRevision == "" || !known {
		return now, nil, err // it is refused for its template, or by nobody
	}
	says.Change = former
	if now, err = r.made(ctx, says); err != nil {
		return now, nil, refused // it is not accepted any more, either
	}
	return now, refused, nil
}

// made is the set with what its members would be. The error is an *outcome.RefusalError if there would be none; the
// revision of the template is there if only what the set changes in it is refused. A pod with a change is tried: the
// template's own was, when the template was looked at.
func (r *reconciler) made(ctx context.Context, says members.Set) (members.Set, error) {
	made, pod, err := r.members.Revision(ctx, says)
	says.Made = made
	if err != nil {
		return says, err
	}
	if made.Differs == placement.Unpatched || r.accepted.Contains(made.Revision) {
		return says, nil
	}
	why, err := r.tries.Try(ctx, made.PodSecurity, pod)
	if err != nil {
		return says, err
	}
	if why != "" {
		return says, &outcome.RefusalError{Reason: sandbarv1alpha1.SandboxSetPatchRefused, Message: "the runtime cluster refuses the pod; correct spec.patch: " + why}
	}
	r.accepted.Add(made.Revision, struct{}{})
	return says, nil
}
