// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WhoAmI asks kcp, in a workspace, who the caller is.
func (c *Client) WhoAmI(ctx context.Context, caller Caller, workspace string) (authenticationv1.UserInfo, Answer) {
	body, err := json.Marshal(&authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	})
	if err != nil {
		return authenticationv1.UserInfo{}, Answer{Err: fmt.Errorf("encoding a review: %w", err)}
	}
	u := c.url("clusters", workspace, "apis", "authentication.k8s.io", "v1", "selfsubjectreviews")
	var got authenticationv1.SelfSubjectReview
	answer := c.do(ctx, caller, http.MethodPost, u, acceptObject, body, &got)
	if answer.Outcome == Allowed && got.Status.UserInfo.Username == "" {
		return authenticationv1.UserInfo{}, Answer{Err: fmt.Errorf("asking who a caller is: %w", errAnswer)}
	}
	return got.Status.UserInfo, answer
}
