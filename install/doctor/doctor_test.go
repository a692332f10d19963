// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
)

// A check that needs one that comes later would be skipped for ever, or run without what it needs.
func TestEachCheckNeedsEarlierOnes(t *testing.T) {
	var before []string
	for _, c := range checks {
		for _, need := range c.needs {
			if !slices.Contains(before, need) {
				t.Errorf("%s needs %s, which does not come before it", c.name, need)
			}
		}
		if slices.Contains(before, c.name) {
			t.Errorf("there are two checks %s", c.name)
		}
		before = append(before, c.name)
	}
}

func TestWithoutKcpOnlyTheRuntimeIsLookedAt(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "https://" + listener.Addr().String()
	listener.Close()
	findings, err := Examine(t.Context(), Options{
		KCP: &rest.Config{Host: nobody}, Runtime: &rest.Config{Host: nobody}, Workspace: "root:sandbar", ExportName: "sandbar.dev", Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != len(checks) {
		t.Errorf("%d findings of %d checks", len(findings), len(checks))
	}
	for i, f := range findings {
		want := Skipped
		if f.Check == "kcp" || f.Check == "runtime" {
			want = Failed
		}
		if f.Check != checks[i].name || f.State != want {
			t.Errorf("%s is %s, want %s of %s: %s", f.Check, f.State, want, checks[i].name, f.Detail)
		}
		if f.State == Failed && f.Remedy == "" {
			t.Errorf("%s fails without a remedy: %s", f.Check, f.Detail)
		}
	}
}

func TestACheckThatTakesTooLongSaysSo(t *testing.T) {
	over := make(chan struct{}) // a handler that ends with its caller would answer before the connection is closed
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer silent.Close()
	defer close(over)
	e := having(t)
	e.KCP, e.Runtime, e.Timeout = &rest.Config{Host: silent.URL}, &rest.Config{Host: silent.URL}, 50*time.Millisecond
	expect(t, e.make(t.Context(), check{name: "clocks", run: (*examination).checkClocks}),
		"warning: of kcp cannot be read", "warning: of the runtime cluster cannot be read", "failed: not done within 50ms (--timeout)")
}

// expect compares what a check found with "state: part of the text" for each finding.
func expect(t *testing.T, got []Finding, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d findings, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		state, text, _ := strings.Cut(w, ": ")
		if string(got[i].State) != state || !strings.Contains(got[i].Detail+" | "+got[i].Remedy, text) {
			t.Errorf("finding %d: %s: %s | %s\nwant %s", i, got[i].State, got[i].Detail, got[i].Remedy, w)
		}
	}
}

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		want  string
	}{
		{0, "ok: agree"},
		{-clockWarning, "ok: agree"},
		{-clockWarning - time.Second, "warning: differ by 6s"},
		{inuse.ClockTolerance, "warning: differ by 30s"},
		{inuse.ClockTolerance + time.Second, "failed: differ by 31s"},
		{-time.Hour, "failed: differ by 1h0m0s"},
	} {
		expect(t, one(judgeClock("kcp", c.ahead)), c.want)
	}
}

func TestAServersClockIsRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	ahead, err := aheadOf(t.Context(), &rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if ahead < time.Hour-time.Minute || ahead > time.Hour+3*time.Minute {
		t.Errorf("this machine is %s ahead of a server that is an hour behind", ahead)
	}
}

func TestTokens(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	token := func(issued, expires time.Time) string {
		claims := map[string]any{
			"sub": "system:serviceaccount:sandbar-system:sandbar-serve", "iat": issued.Unix(),
			"kubernetes.io": map[string]any{"serviceaccount": map[string]any{"uid": "u1"}},
		}
		if !expires.IsZero() {
			claims["exp"] = expires.Unix()
		}
		payload, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		return "e30." + base64.RawURLEncoding.EncodeToString(payload) + ".c2ln"
	}
	day := 24 * time.Hour
	for name, c := range map[string]struct{ token, uid, want string }{
		"young":                {token(now, now.Add(7*day)), "u1", "ok: lasts until"},
		"not renewed for long": {token(now.Add(-5*day), now.Add(2*day)), "u1", "warning: is not renewed"},
		"expired":              {token(now.Add(-7*day), now.Add(-time.Second)), "u1", "failed: expired"},
		"without an end":       {token(now, time.Time{}), "u1", "warning: never expires"},
		"of another account":   {token(now, now.Add(7*day)), "u2", "failed: was deleted and made again"},
		"no token":             {"a.b", "u1", "failed: not the token"},
		"no file":              {"", "u1", "failed: there is no file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "kcp.token")
			if c.token != "" {
				if err := os.WriteFile(path, []byte(c.token), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			expect(t, one(judgeToken(path, c.uid, now)), c.want)
		})
	}
}

func TestLimitsOfKro(t *testing.T) {
	// of is a pod as kro's chart has it: values in the environment.
	of := func(workers, rate, qps string) *corev1.PodSpec {
		return &corev1.PodSpec{Containers: []corev1.Container{{
			Args: []string{"--dynamic-controller-concurrent-reconciles", "$(WORKERS)", "--dynamic-controller-rate-limiter-rate-limit=$(RATE)", "--client-qps=" + qps},
			Env:  []corev1.EnvVar{{Name: "WORKERS", Value: workers}, {Name: "RATE", Value: rate}},
		}}}
	}
	expect(t, tooLow(of("16", "1000", "500")))
	expect(t, tooLow(of("4", "100", "100")))
	expect(t, tooLow(of("1", "10", "100")),
		"warning: concurrent-reconciles=1", "warning: rate-limit=10")
	expect(t, tooLow(of("16", "1000", "20")), "warning: client-qps=20")
	expect(t, tooLow(&corev1.PodSpec{Containers: []corev1.Container{{Name: "kro"}}}),
		"warning: config.dynamicControllerConcurrentReconciles to 4", "warning: config.dynamicControllerRateLimiterRateLimit to 100")
}

func TestTheDataPlaneIsCalledAsTenantsDo(t *testing.T) {
	answer := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		w.WriteHeader(answer)
		_, _ = w.Write([]byte("waiting for \x1b[2Jits Lease\n"))
	}))
	defer server.Close()
	other := httptest.NewTLSServer(nil)
	other.Close()
	look := func(bundle []byte, url string) []Finding {
		provider := &sandbarv1alpha1.InfrastructureProvider{}
		provider.Spec.DataPlane = sandbarv1alpha1.DataPlaneAddress{URL: url, CABundle: bundle}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return (&examination{provider: provider}).checkDataPlane(ctx)
	}
	ca := certificateOf(server)
	expect(t, look(ca, server.URL+"/of/a/front"), "ok: is ready")
	answer = http.StatusServiceUnavailable
	expect(t, look(ca, server.URL), "failed: waiting for")
	answer = http.StatusNotFound
	expect(t, look(ca, server.URL), "warning: does not pass /readyz on")
	expect(t, look(nil, server.URL), "failed: clients do not trust")
	expect(t, look([]byte("no PEM"), server.URL), "failed: has no certificate")
	expect(t, look(ca, other.URL), "failed: does not answer")
}

func TestPreviewsOfADomainBelowLocalhost(t *testing.T) {
	server := httptest.NewTLSServer(nil) // its certificate covers *.example.com
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	look := func(domain string) []Finding {
		provider := &sandbarv1alpha1.InfrastructureProvider{}
		provider.Spec.DataPlane = sandbarv1alpha1.DataPlaneAddress{PreviewDomain: domain, CABundle: certificateOf(server)}
		return (&examination{provider: provider}).checkPreviews(t.Context())
	}
	expect(t, look(""), "skipped: there is no preview domain")
	expect(t, look("preview.localhost:"+port), "failed: a certificate for *.preview.localhost")
	expect(t, look("preview.localhost:1"), "failed: do not answer")
	expect(t, look("preview.invalid"), "failed: do not resolve")
}
