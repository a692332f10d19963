// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// refusedByPolicy is what an admission policy says of a request that it has refused; empty for another refusal. The API server
// writes "ValidatingAdmissionPolicy 'NAME' with binding 'NAME' denied request: MESSAGE", with the status of a missing right; but no
// right would help: what was asked for is to be written otherwise, as the message says.
func refusedByPolicy(err error) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	_, said, ok := strings.Cut(err.Error(), "ValidatingAdmissionPolicy '")
	if !ok {
		return ""
	}
	_, message, _ := strings.Cut(said, " denied request: ")
	return termsafe.Line(message)
}
