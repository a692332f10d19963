// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// TestACredentialDoesNotFollowARedirect: client-go adds the token to the request that follows a redirect to any place that
// the redirect names.
func TestACredentialDoesNotFollowARedirect(t *testing.T) {
	elsewhere := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was called with %q", r.Method, r.Host, r.Header.Get("Authorization"))
	})
	plain, secure := httptest.NewServer(elsewhere), httptest.NewTLSServer(elsewhere)
	defer plain.Close()
	defer secure.Close()
	for _, to := range []string{plain.URL + "/", secure.URL + "/", "/elsewhere"} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			calls := 0
			kcp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				w.Header().Set("Location", to)
				w.WriteHeader(code)
			}))
			cfg := &rest.Config{Host: kcp.URL + "/clusters/root:me", BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: append(certificateOf(kcp), certificateOf(secure)...)}}
			_, whoAmI := client.WhoAmI(t.Context(), cfg)
			_, offers := client.Offers(t.Context(), cfg)
			c, err := client.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, instance := c.Instance(t.Context(), client.SandboxRunners, "default", "web")
			for call, err := range map[string]error{"WhoAmI": whoAmI, "Offers": offers, "Instance": instance} {
				var redirect *client.RedirectError
				if !errors.As(err, &redirect) || redirect.From != kcp.URL || redirect.To != to || !strings.Contains(err.Error(), "does not follow a redirect") {
					t.Errorf("%s, %d to %s: got %v, want a RedirectError", call, code, to, err)
				}
			}
			if calls != 3 {
				t.Errorf("%d to %s: kcp was called %d times, want 3", code, to, calls)
			}
			kcp.Close()
		}
	}
}

func TestAWorkspaceSaysWhoTheCallerIs(t *testing.T) {
	kcp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/clusters/root:me/apis/authentication.k8s.io/v1/selfsubjectreviews" {
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"alice","uid":"7","groups":["team-a"],"extra":{"k":["v"]}}}}`)
	}))
	defer kcp.Close()
	cfg := &rest.Config{Host: kcp.URL + "/clusters/root:me", BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(kcp)}}
	me, err := client.WhoAmI(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%+v", *me); got != "{Username:alice UID:7 Groups:[team-a] Extra:map[k:[v]]}" {
		t.Errorf("got %s", got)
	}
	if cfg.WrapTransport != nil {
		t.Error("the caller's configuration was changed")
	}
}
