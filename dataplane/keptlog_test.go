// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// keptOf is the Secret with what was kept of the demo's log.
func keptOf(t *testing.T, containers ...keptlog.Container) *corev1.Secret {
	t.Helper()
	kept := keptlog.Log{At: time.Date(2026, 11, 22, 10, 0, 5, 0, time.UTC), Containers: containers}
	data, err := kept.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: fixture.Meta(demoID, placement.LogSecret), Data: data}
}

func TestTheLogOfASuspendedInstanceIsWhatWasKept(t *testing.T) {
	const verb = demo + "log"
	selected := map[string]string{"app": "demo"}
	other := keptlog.Container{Pod: "db-0", Name: "db", Labels: map[string]string{"app": "db"}, Text: []byte("2026-11-22T10:00:00Z of a database\n")}
	side := keptlog.Container{Pod: "demo-0", Name: "side", Labels: selected, Text: []byte("2026-11-22T10:00:00Z beside it\n")}
	main := keptlog.Container{Pod: "demo-0", Name: "runner", Labels: selected, Ports: []string{"control"}, Text: []byte("2026-11-22T10:00:00Z one\n2026-11-22T10:00:01Z two\n")}
	kept := keptOf(t, other, side, main)
	foreign := kept.DeepCopy()
	foreign.Labels[placement.LabelInstanceUID] = "another"
	for name, c := range map[string]struct {
		path, token string
		cause       sandbarv1alpha1.SuspensionCause
		secret      *corev1.Secret
		broken      error
		code        int
		told        string
	}{
		"all":                         {verb, adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 200, "one\ntwo\n"},
		"of one whose time is over":   {verb, adminToken, sandbarv1alpha1.SuspendedExpired, kept, nil, 200, "one\ntwo\n"},
		"its last line":               {verb + "?tail=1&format=json", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 200, "two\n"},
		"what is young":               {verb + "?since=2026-11-22T10:00:01Z&timestamps=true", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 200, "2026-11-22T10:00:01Z two\n"},
		"the right to something else": {verb, "others", sandbarv1alpha1.SuspendedByUser, kept, nil, 403, "access denied"},
		"what comes":                  {verb + "?follow=true", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 409, "without follow"},
		"from an offset":              {verb + "?offset=3", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 400, "leave offset"},
		"one stream":                  {verb + "?stream=stderr", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 400, "stream"},
		"a tail that is none":         {verb + "?tail=-1", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 400, "tail"},
		"another container":           {verb + "?container=side", adminToken, sandbarv1alpha1.SuspendedByUser, kept, nil, 400, "container"},
		"nothing was kept":            {verb, adminToken, sandbarv1alpha1.SuspendedByUser, nil, nil, 409, "suspended by its tenant"},
		"one that could not be read":  {verb, adminToken, sandbarv1alpha1.SuspendedByUser, keptOf(t, keptlog.Container{Pod: "demo-0", Name: "runner", Labels: selected, Ports: []string{"control"}, Unread: true}), nil, 409, "suspended by its tenant"},
		"of others alone":             {verb, adminToken, sandbarv1alpha1.SuspendedByUser, keptOf(t, other), nil, 409, "suspended by its tenant"},
		"one that is not its own":     {verb, adminToken, sandbarv1alpha1.SuspendedByUser, foreign, nil, 502, "ask the operator"},
		"a cluster that is away":      {verb, adminToken, sandbarv1alpha1.SuspendedByUser, kept, errors.New("dial tcp 192.0.2.1:6443"), 503, "try again"},
		"a right that is missing":     {verb, adminToken, sandbarv1alpha1.SuspendedByUser, kept, apierrors.NewForbidden(corev1.Resource("secrets"), "x", nil), 502, "tell the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, recorder(), func(s *setup) {
				s.suspended = c.cause
				if c.secret != nil {
					s.objects = append(s.objects, c.secret.DeepCopy())
				}
			})
			w.kcp.grant("others", "get sandboxrunners", "get sandboxrunners/status")
			if c.broken != nil {
				w.runtime.(*fake.Clientset).PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, c.broken
				})
			}
			res, body := w.do(http.MethodGet, c.path, c.token, nil)
			if c.code != http.StatusOK {
				if status := wantStatus(t, res, body, c.code); !strings.Contains(status.Message, c.told) {
					t.Errorf("told %q, want %q", status.Message, c.told)
				}
				return
			}
			if body != c.told || res.StatusCode != http.StatusOK {
				t.Errorf("got %d %q, want %q", res.StatusCode, body, c.told)
			}
			if at := res.Header.Get(logwire.KeptHeader); at != "2026-11-22T10:00:05Z" || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("the headers are %v", res.Header)
			}
		})
	}
}
