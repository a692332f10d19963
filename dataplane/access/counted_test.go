// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/tenant"
)

// A user is one caller by a front proxy's word and by a token.
func TestATokenAndAFrontProxysWordCountForOneUser(t *testing.T) {
	byName, refused := (&tokenReviewer{}).identify(t.Context(), aQuestion("alice", "cluster1", "log", "get"), time.Time{})
	if refused != nil || byName.CountedCaller != CountedUser("", authenticationv1.UserInfo{Username: "alice"}) {
		t.Errorf("got %+v, %v", byName, refused)
	}
}

// aQuestion is what a caller known by name asks for a verb of the demo.
func aQuestion(name, workspace, subresource, verb string) Question {
	return Question{
		Caller:      tenant.Subject(authenticationv1.UserInfo{Username: name, Groups: []string{"system:authenticated"}}),
		Ref:         tenant.Ref{Workspace: workspace, Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
		Subresource: subresource, Verb: verb, Declared: true,
	}
}
