// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

// errRefused means that kcp refused the provider, not the caller.
var errRefused = errors.New("kcp refuses the provider at the APIExport's virtual workspace")

var errNoVirtual = errors.New("nothing can be asked about callers without a token: no virtual workspace is configured")

// getFor reads an object for a user. The provider can read it anyhow, so that it can be read says
// nothing: the object counts only if kcp says, too, that the user may get it. Both are asked at
// once, and the answer about the user goes first.
func (v *VirtualWorkspace) getFor(ctx context.Context, user authenticationv1.UserInfo, ref Ref, accept string, obj any) Answer {
	in, answer := v.find(ref.Workspace)
	if answer.Outcome != Allowed {
		return answer
	}
	reads := make(chan Answer, 1)
	go func() { reads <- v.read(ctx, in, ref, accept, obj) }()
	may := v.reviewIn(ctx, in, user, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Group: ref.Group, Version: ref.Version, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name, Verb: "get",
	}})
	// Waited for in any case: obj is the caller's again when this returns.
	read := <-reads
	if may.Outcome != Allowed {
		return may
	}
	return read
}

func (v *VirtualWorkspace) read(ctx context.Context, in export.Binding, ref Ref, accept string, obj any) Answer {
	u, err := at(in, ref.path()...)
	if err != nil {
		return Answer{Err: err}
	}
	return asProvider(roundTrip(v.transport, newRequest(ctx, http.MethodGet, u, accept, nil), obj))
}

// review asks what a user may do in a workspace.
func (v *VirtualWorkspace) review(ctx context.Context, user authenticationv1.UserInfo, workspace string, spec authorizationv1.SelfSubjectAccessReviewSpec) Answer {
	in, answer := v.find(workspace)
	if answer.Outcome != Allowed {
		return answer
	}
	return v.reviewIn(ctx, in, user, spec)
}

// find finds the workspace's binding; the outcome is Allowed if users can be asked about there. A
// workspace that is not there and one that has not bound the export are both NoAccess.
func (v *VirtualWorkspace) find(workspace string) (export.Binding, Answer) {
	if v == nil {
		return export.Binding{}, Answer{Err: errNoVirtual}
	}
	in, found := v.Find(workspace)
	switch {
	case !found && !v.Synced():
		return in, Answer{Err: errors.New("the bindings of the workspaces are not known yet")}
	case !found:
		return in, Answer{Outcome: NoAccess}
	case !in.Claimed:
		return in, Answer{Outcome: ClaimNotAccepted}
	}
	return in, Answer{Outcome: Allowed}
}

func (v *VirtualWorkspace) reviewIn(ctx context.Context, in export.Binding, user authenticationv1.UserInfo, spec authorizationv1.SelfSubjectAccessReviewSpec) Answer {
	review := authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes,
			// All of the user: kcp keeps a user's scopes in its extra keys, and without them
			// the user would be given more than it has.
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extraOf(user),
		},
	}
	body, err := json.Marshal(review)
	if err != nil {
		return Answer{Err: fmt.Errorf("encoding a review: %w", err)}
	}
	u, err := at(in, "apis", ClaimGroup, "v1", ClaimResource)
	if err != nil {
		return Answer{Err: err}
	}
	var got authorizationv1.SubjectAccessReview
	answer := asProvider(roundTrip(v.transport, newRequest(ctx, http.MethodPost, u, acceptObject, body), &got))
	if answer.Outcome == NotFound {
		return Answer{Err: errRefused}
	}
	return decided(answer, got.Status)
}

func extraOf(user authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return extra
}

// asProvider corrects an answer to the provider's own request: that it was refused says nothing
// about the caller.
func asProvider(answer Answer) Answer {
	if answer.Outcome == Unauthorized || answer.Outcome == Denied {
		return Answer{Err: fmt.Errorf("%w: %s", errRefused, answer.Outcome)}
	}
	return answer
}
