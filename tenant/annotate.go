// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Annotate writes an annotation on an object for the caller, who needs the right to patch it.
func (c *Client) Annotate(ctx context.Context, caller Caller, ref Ref, key, value string) Answer {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return Answer{Err: fmt.Errorf("encoding an annotation: %w", err)}
	}
	if user, ok := caller.User(); ok {
		return c.virtual.patchFor(ctx, user, ref, body)
	}
	return c.patch(ctx, caller, ref, acceptMetadata, body, &struct{}{})
}

// Patch merges patch into an object with the caller's own token, and decodes the object that comes
// of it into obj. A Subject, who has none, is Denied: in nobody's name does the provider change more
// than an annotation.
func (c *Client) Patch(ctx context.Context, caller Caller, ref Ref, patch, obj any) Answer {
	if _, ok := caller.User(); ok {
		return Answer{Outcome: Denied}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return Answer{Err: fmt.Errorf("encoding a patch: %w", err)}
	}
	return c.patch(ctx, caller, ref, acceptObject, body, obj)
}

func (c *Client) patch(ctx context.Context, caller Caller, ref Ref, accept string, body []byte, out any) Answer {
	if caller.IsZero() {
		return Answer{Outcome: Unauthorized}
	}
	req := newPatch(ctx, join(c.base, append([]string{"clusters", ref.Workspace}, ref.path()...)...), accept, body)
	caller.authenticate(req.Header)
	return roundTrip(c.transport, req, out)
}

// patchFor patches an object for a user. The provider may patch it anyhow, so kcp is asked about
// the user first.
func (v *VirtualWorkspace) patchFor(ctx context.Context, user authenticationv1.UserInfo, ref Ref, body []byte) Answer {
	in, answer := v.find(ref.Workspace)
	if answer.Outcome != Allowed {
		return answer
	}
	may := v.reviewIn(ctx, in, user, authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Group: ref.Group, Version: ref.Version, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name, Verb: "patch",
	}})
	if may.Outcome != Allowed {
		return may
	}
	u, err := at(in, ref.path()...)
	if err != nil {
		return Answer{Err: err}
	}
	return asProvider(roundTrip(v.transport, newPatch(ctx, u, acceptMetadata, body), &struct{}{}))
}

func newPatch(ctx context.Context, u *url.URL, accept string, body []byte) *http.Request {
	req := newRequest(ctx, http.MethodPatch, u, accept, body)
	req.Header.Set("Content-Type", "application/merge-patch+json")
	return req
}
