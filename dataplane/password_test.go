// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestAPasswordIsGivenToThoseWhoMayCreateIt(t *testing.T) {
	const verb, secretWord = demo + "password", "made-by-the-provider"
	mine := &corev1.Secret{ObjectMeta: fixture.Meta(demoID, placement.PasswordSecret), Data: map[string][]byte{placement.PasswordKey: []byte(secretWord)}}
	foreign := mine.DeepCopy()
	foreign.Labels[placement.LabelInstanceUID] = "another"
	empty := mine.DeepCopy()
	empty.Data = nil
	for name, c := range map[string]struct {
		method, path, token string
		secret              *corev1.Secret
		broken              error
		code                int
		told                string
	}{
		"an administrator of the workspace":          {"POST", verb, adminToken, mine, nil, 200, ""},
		"the right to create it":                     {"POST", verb, "creates", mine, nil, 200, ""},
		"the right to read everything is not enough": {"POST", verb, "reads", mine, nil, 403, "access denied"},
		"nobody":                                 {"POST", verb, "", mine, nil, 401, ""},
		"it cannot be got":                       {"GET", verb, adminToken, mine, nil, 405, "POST"},
		"nothing is below it":                    {"POST", verb + "/x", adminToken, mine, nil, 404, "no such"},
		"it is not there yet":                    {"POST", verb, adminToken, nil, nil, 409, "wait for its condition Placed"},
		"one that is not the instance's":         {"POST", verb, adminToken, foreign, nil, 502, "ask the operator"},
		"it is empty":                            {"POST", verb, adminToken, empty, nil, 409, "wait for its condition Placed"},
		"a runtime cluster that does not answer": {"POST", verb, adminToken, mine, errors.New("dial tcp 192.0.2.1:6443: " + secretWord), 503, "try again"},
		"a right that the provider has not":      {"POST", verb, adminToken, mine, apierrors.NewForbidden(corev1.Resource("secrets"), secretWord, nil), 502, "tell the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, recorder(), func(s *setup) {
				s.template.Spec.DataPlane.Endpoints["password"] = sandbarv1alpha1.Endpoint{From: "password", Methods: []string{"POST"}}
				if c.secret != nil {
					s.objects = append(s.objects, c.secret.DeepCopy())
				}
			})
			w.kcp.grant("reads", "get sandboxrunners", "get sandboxrunners/password")
			w.kcp.grant("creates", "get sandboxrunners", "create sandboxrunners/password")
			if c.broken != nil {
				w.runtime.(*fake.Clientset).PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, c.broken
				})
			}
			res, body := w.do(c.method, c.path, c.token, nil)
			if c.code == http.StatusOK {
				if body != `{"password":"`+secretWord+"\"}\n" || res.Header.Get("Cache-Control") != "no-store" {
					t.Errorf("got %d %s, %v", res.StatusCode, body, res.Header)
				}
			} else if status := wantStatus(t, res, body, c.code); !strings.Contains(status.Message, c.told) || strings.Contains(body, secretWord) {
				t.Errorf("told %q, want %q", status.Message, c.told)
			}
			if log := w.logs.String(); c.broken == nil && strings.Contains(log, secretWord) {
				t.Errorf("the password is in the log:\n%s", log)
			}
		})
	}
}
