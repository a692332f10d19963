// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/http"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/sandbar-dev/sandbar/tenant"
)

// subjectQuestion is what a caller known by name asks for a verb of the demo.
func subjectQuestion(name, workspace, subresource, verb string) question {
	return question{
		caller:      tenant.Subject(authenticationv1.UserInfo{Username: name, Groups: []string{"system:authenticated"}}),
		ref:         tenant.Ref{Workspace: workspace, Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners", Namespace: "default", Name: "demo"},
		subresource: subresource, verb: verb, declared: true,
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
		_, refused := w.server.handler.authorizer.again(t.Context(), subjectQuestion("viewer", "cluster2", "log", "get"))
		return refused != nil && refused.cause == causeClaim
	})
	for name, c := range map[string]struct {
		q     question
		code  int // 0 goes on
		cause string
	}{
		"a viewer by the workspace's path":            {subjectQuestion("viewer", "root:acme:dev", "log", "get"), 0, ""},
		"a viewer by the cluster's name":              {subjectQuestion("viewer", "cluster1", "log", "get"), 0, ""},
		"a viewer may not sync":                       {subjectQuestion("viewer", "cluster1", "sync", "create"), 403, causeDenied},
		"the provider reads what the subject may not": {subjectQuestion("blind", "cluster1", "log", "get"), 403, causeDenied},
		"a stranger":           {subjectQuestion("stranger", "cluster1", "log", "get"), 403, causeDenied},
		"an unknown workspace": {subjectQuestion("viewer", "root:nowhere", "log", "get"), 403, causeDenied},
		"a workspace that has not accepted the claim": {subjectQuestion("viewer", "root:careful", "log", "get"), 403, causeClaim},
		"a token that is the subject's name is not the subject": {func() question {
			q := subjectQuestion("viewer", "cluster1", "log", "get")
			q.caller = tenant.Bearer("viewer")
			return q
		}(), 401, causeBadIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			g, refused := w.server.handler.authorizer.authorize(t.Context(), c.q)
			switch {
			case refused == nil && (c.code != 0 || g.id != demoID):
				t.Errorf("got %+v, want %d", g, c.code)
			case refused != nil && (refused.code != c.code || refused.cause != c.cause):
				t.Errorf("got %d %s (%v)", refused.code, refused.cause, refused.err)
			}
		})
	}
	w.kcp.set(func() { w.kcp.virtual.down = true })
	if _, refused := w.server.handler.authorizer.again(t.Context(), subjectQuestion("viewer", "cluster1", "log", "get")); refused == nil || refused.code != http.StatusServiceUnavailable {
		t.Errorf("without an answer: %v", refused)
	}
}

func TestPreviewsNotBefore(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        time.Time
	}{
		"nothing voids nothing":              {nil, time.Time{}},
		"a time":                             {map[string]string{"sandbar.dev/previews-not-before": "2026-05-04T03:02:01Z"}, time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)},
		"what cannot be read voids all":      {map[string]string{"sandbar.dev/previews-not-before": "yesterday"}, previewsNever},
		"an empty value voids all":           {map[string]string{"sandbar.dev/previews-not-before": ""}, previewsNever},
		"another's annotation voids nothing": {map[string]string{"sandbar.dev/previews": "x"}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := previewsNotBefore(c.annotations); !got.Equal(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
