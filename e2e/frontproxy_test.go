// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFrontProxyIdentity: behind kcp's own front proxy, which takes the caller's token and says who
// the caller is, everybody has the rights that they have in their workspace, and nobody else's.
func TestFrontProxyIdentity(t *testing.T) {
	calm(t)
	front, replica := startFrontProxy(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	through := func(user string) *caller {
		c := callAs(t, world.Stack.Token(user))
		c.url = front.URL + front.Path
		return c
	}
	alice, carol := through("alice"), through("carol")
	eventually(t, "alice reads her log through the front proxy", func() error {
		return wantCode(alice, http.StatusOK, http.MethodGet, box.base()+"/log")
	})
	box.deployTicker(alice)

	t.Run("the workspace's cluster name leads there too", func(t *testing.T) {
		alice.on(t).want(http.StatusOK, http.MethodGet, strings.Replace(box.base(), tn.path, tn.cluster, 1)+"/log", nil)
	})
	t.Run("what goes on and what is upgraded passes as it comes", func(t *testing.T) {
		s := openStreams(t, box, alice.on(t))
		s.use(t, "at once")
		if out, err := box.exec(t.Context(), alice, alice.url, "echo fronted"); err != nil || out != "fronted\n" {
			t.Errorf("a command: %q, %v", out, err)
		}
	})
	t.Run("a right that is missing is 403", func(t *testing.T) {
		viewer := tn.role("viewer",
			rbacv1.PolicyRule{APIGroups: []string{"sandbar.dev"}, Resources: []string{"sandboxrunners", "sandboxrunners/log"}, Verbs: []string{"get"}})
		tn.admit(viewer, "carol")
		eventually(t, "carol reads the log", func() error {
			return wantCode(carol, http.StatusOK, http.MethodGet, box.base()+"/log")
		})
		carol.on(t).wantStatus(http.StatusForbidden, http.MethodPost, box.base()+"/restart", nil)
		through("dave").on(t).wantStatus(http.StatusForbidden, http.MethodGet, box.base()+"/log", nil)
	})
	// The one thing that the data plane writes for a caller without a token; an admission policy in the
	// provider workspace refuses it all else.
	t.Run("preview links are voided", func(t *testing.T) {
		alice.on(t).want(http.StatusOK, http.MethodDelete, box.base()+"/proxy-url", nil)
	})
	t.Run("nobody is nobody", func(t *testing.T) {
		c := through("alice").on(t)
		c.token = ""
		if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code != http.StatusUnauthorized && code != http.StatusForbidden {
			t.Errorf("got %d %s", code, body)
		}
	})
	t.Run("the headers count from the front proxy alone", func(t *testing.T) {
		for name, certificates := range map[string][]tls.Certificate{
			"no certificate": nil, "the data plane's own certificate": {world.ServingCertificate()},
		} {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: world.CA, Certificates: certificates, MinVersion: tls.VersionTLS12}}
			for target, want := range map[string][]int{replica.URL: {401}, front.URL + front.Path: {401, 403}} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target+box.base()+"/log", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("X-Remote-User", "alice")
				req.Header.Set("X-Remote-Group", "system:masters")
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if res.StatusCode != want[0] && res.StatusCode != want[len(want)-1] {
					t.Errorf("%s: got %d", name, res.StatusCode)
				}
			}
			transport.CloseIdleConnections()
		}
	})
	t.Run("without the claim the caller is told how to accept it", func(t *testing.T) {
		tn.setClaim("Rejected")
		eventually(t, "the claim is named", func() error {
			code, body := alice.do(http.MethodGet, box.base()+"/log", nil)
			if code != http.StatusForbidden || !strings.Contains(body, "subjectaccessreviews.authorization.k8s.io") || !strings.Contains(body, "spec.permissionClaims") {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
		direct := callAs(t, tn.token)
		direct.url = replica.URL
		direct.want(http.StatusOK, http.MethodGet, box.base()+"/log", nil)
		tn.setClaim("Accepted")
		eventually(t, "the claim counts again", func() error {
			return wantCode(alice, http.StatusOK, http.MethodGet, box.base()+"/log")
		})
	})
}

func wantCode(c *caller, want int, method, path string) error {
	if code, body := c.do(method, path, nil); code != want {
		return fmt.Errorf("code %d: %s", code, body)
	}
	return nil
}

// setClaim accepts or rejects the permission claim.
func (tn *tenant) setClaim(state string) {
	tn.t.Helper()
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/permissionClaims/0/state","value":%q}]`, state)
	if _, err := tn.dyn.Resource(apibindings).Patch(tn.t.Context(), "sandbar.dev", types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		tn.t.Fatal(err)
	}
}
