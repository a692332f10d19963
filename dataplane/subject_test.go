// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

// subjectQuestion is what a caller known by name asks for a verb of the demo.
func subjectQuestion(name, workspace, subresource, verb string) access.Question {
	return access.Question{
		Caller:      tenant.Subject(authenticationv1.UserInfo{Username: name, Groups: []string{"system:authenticated"}}),
		Ref:         tenant.Ref{Workspace: workspace, Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
		Subresource: subresource, Verb: verb, Declared: true,
	}
}

// watched waits until the data plane follows the bindings, so that no event of a test is lost.
func (w *world) watched() {
	w.t.Helper()
	eventually(w.t, "the bindings are followed", func() bool {
		w.kcp.mu.Lock()
		defer w.kcp.mu.Unlock()
		return len(w.kcp.virtual.watchers) > 0
	})
}

func TestASubjectIsAskedAboutThroughTheVirtualWorkspace(t *testing.T) {
	w := newWorld(t, recorder())
	w.watched()
	w.kcp.grant("user:viewer", "get sandboxrunners", "get sandboxrunners/log")
	w.kcp.grant("user:blind", "get sandboxrunners/log")
	w.kcp.bind("cluster2", fakeBinding{path: "root:careful", phase: "Bound"})
	eventually(t, "the second workspace is known", func() bool {
		_, refused := w.server.handler.authorizer.Again(t.Context(), subjectQuestion("viewer", "cluster2", "log", "get"))
		return refused != nil && refused.Cause == refusal.CauseClaim
	})
	for name, c := range map[string]struct {
		q     access.Question
		code  int // 0 goes on
		cause string
	}{
		"a viewer by the workspace's path":            {subjectQuestion("viewer", "root:acme:dev", "log", "get"), 0, ""},
		"a viewer by the cluster's name":              {subjectQuestion("viewer", "cluster1", "log", "get"), 0, ""},
		"a viewer may not sync":                       {subjectQuestion("viewer", "cluster1", "sync", "create"), 403, refusal.CauseDenied},
		"the provider reads what the subject may not": {subjectQuestion("blind", "cluster1", "log", "get"), 403, refusal.CauseDenied},
		"a stranger":           {subjectQuestion("stranger", "cluster1", "log", "get"), 403, refusal.CauseDenied},
		"an unknown workspace": {subjectQuestion("viewer", "root:nowhere", "log", "get"), 403, refusal.CauseDenied},
		"a workspace that has not accepted the claim": {subjectQuestion("viewer", "root:careful", "log", "get"), 403, refusal.CauseClaim},
		"a token that is the subject's name is not the subject": {func() access.Question {
			q := subjectQuestion("viewer", "cluster1", "log", "get")
			q.Caller = tenant.Bearer("viewer")
			return q
		}(), 401, refusal.CauseBadIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			g, refused := w.server.handler.authorizer.Authorize(t.Context(), c.q)
			switch {
			case refused == nil && (c.code != 0 || g.Owner != demoOwner):
				t.Errorf("got %+v, want %d", g, c.code)
			case refused != nil && (refused.Code != c.code || refused.Cause != c.cause):
				t.Errorf("got %d %s (%v)", refused.Code, refused.Cause, refused.Err)
			}
		})
	}
	w.kcp.set(func() { w.kcp.virtual.down = true })
	if _, refused := w.server.handler.authorizer.Again(t.Context(), subjectQuestion("viewer", "cluster1", "log", "get")); refused == nil || refused.Code != http.StatusServiceUnavailable {
		t.Errorf("without an answer: %v", refused)
	}
}
