// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// withClaims has the workspace bound to the world's data plane, which answers claims with a code. It returns what the
// data plane was sent.
func withClaims(t *testing.T, w *world, code int) (sent func() []string) {
	t.Helper()
	w.Stocked(t).Put("apibindings", map[string]any{
		"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding",
		"metadata": map[string]any{"name": "sandbar.dev", "annotations": map[string]any{"extra.apis.kcp.io/dataplane-url": w.URL}},
		"status":   map[string]any{"boundResources": []any{map[string]any{"group": "sandbar.dev", "resource": "sandboxtemplates"}}},
	})
	var mu sync.Mutex
	var bodies []string
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/dataplane/clusters/root:me/namespaces/default/sandboxtemplates/shell/claim" {
			t.Errorf("it asked for %s", r.URL.Path)
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		n := len(bodies)
		bodies = append(bodies, r.Header.Get("Idempotency-Key")+" "+string(body))
		mu.Unlock()
		if code >= http.StatusBadRequest {
			clitest.Refusing(code, "Forbidden", "you may not")(rw, r)
			return
		}
		message, start := "", `{"type":"Cold","reason":"SetEmpty"}`
		if code == http.StatusAccepted {
			message = "Sandbox shell-0 is not Ready yet, and goes on starting"
		}
		rw.WriteHeader(code)
		fmt.Fprintf(rw, `{"metadata":{"name":"shell-%d","namespace":"default","uid":"u"},"message":%q,"status":{"phase":"Ready","start":%s,"dataPlane":{"url":"https://dp/x"}}}`, n, message, start)
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(bodies))
	}
}

func TestClaimPrintsTheNameAndHowItStarted(t *testing.T) {
	w := newWorld(t)
	sent := withClaims(t, w, http.StatusCreated)
	code, stdout, stderr := w.Run(t, "claim", "shell", "--label", "a=b", "--annotation", "c=d", "--prewarm", "Prefer", "--wait", "1m", "--key", "k")
	if code != 0 || stdout != "shell-0\n" || !regexp.MustCompile(`^\[\S+\] shell-0 is Ready, cold \(SetEmpty\) after \S+\n$`).MatchString(stderr) {
		t.Errorf("%d\n%s\n%s", code, stdout, stderr)
	}
	if want := `k {"labels":{"a":"b"},"annotations":{"c":"d"},"prewarm":"Prefer","wait":"1m0s"}`; !slices.Equal(sent(), []string{want}) {
		t.Errorf("it sent %q", sent())
	}
	code, stdout, _ = w.Run(t, "claim", "shell", "-o", "json")
	var row claimedRow
	if err := json.Unmarshal([]byte(stdout), &row); err != nil || code != 0 || row != (claimedRow{Name: "shell-1", Namespace: "default", UID: "u", Ready: true, Phase: "Ready", Start: "Cold", Reason: "SetEmpty", URL: "https://dp/x"}) {
		t.Errorf("%d %s", code, stdout)
	}
}

func TestClaimAsksForSeveral(t *testing.T) {
	w := newWorld(t)
	sent := withClaims(t, w, http.StatusCreated)
	code, stdout, _ := w.Run(t, "claim", "shell", "--replicas", "3", "--key", "k")
	if lines := strings.Fields(stdout); code != 0 || !slices.Equal(slices.Sorted(slices.Values(lines)), []string{"shell-0", "shell-1", "shell-2"}) {
		t.Errorf("%d %s", code, stdout)
	}
	for i, body := range sent() {
		if !strings.HasPrefix(body, fmt.Sprintf("k-%d ", i)) {
			t.Errorf("it sent %q", sent())
		}
	}
}

func TestClaimFailsWithTheDataPlanesWords(t *testing.T) {
	for code, want := range map[int]string{
		http.StatusAccepted:  "sandbar: Sandbox shell-0 is not Ready yet, and goes on starting\n",
		http.StatusForbidden: "sandbar: claiming a Sandbox: 403: you may not\n",
	} {
		w := newWorld(t)
		withClaims(t, w, code)
		if code, _, stderr := w.Run(t, "claim", "shell"); code != cli.ExitFailure || stderr != want {
			t.Errorf("%d %s", code, stderr)
		}
	}
	w := newWorld(t)
	withClaims(t, w, http.StatusForbidden)
	if code, _, stderr := w.Run(t, "claim", "shell", "--replicas", "2"); code != cli.ExitFailure || !strings.Contains(stderr, "2 of 2 Sandboxes are not Ready, the first because: ") {
		t.Errorf("%d %s", code, stderr)
	}
	w.Stocked(t) // without a binding
	if code, _, stderr := w.Run(t, "claim", "shell"); code != cli.ExitFailure || !strings.Contains(stderr, "bind a provider that offers Sandboxes") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestClaimIsToldAMistakeBeforeAnythingIsSent(t *testing.T) {
	w := newWorld(t)
	w.Serve(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	for args, want := range map[string]string{
		"claim":                                "takes TEMPLATE, and nothing else",
		"claim shell --replicas 0":             "1 to 100 Sandboxes",
		"claim shell --replicas 101":           "1 to 100 Sandboxes",
		"claim shell --replicas 2 --name mine": "do not go together",
		"claim shell --wait 6m":                "from 0s to 5m0s",
		"claim shell --label x":                "--label",
		"claim shell --prewarm prefer":         "none of Prefer, Require and None",
		"claim shell --env nothing":            "--env wants NAME=VALUE",
		"claim shell --resize no":              "none of Require, BestEffort and Keep",
		"claim shell -o wide":                  "neither text nor json",
	} {
		if code, _, stderr := w.Run(t, strings.Fields(args)...); code != cli.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d %s", args, code, stderr)
		}
	}
}
