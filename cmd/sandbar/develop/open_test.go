// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
)

func TestOpenPrintsTheAddressOfThePortThatIsMeant(t *testing.T) {
	w := newWorld(t)
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"url": "https://preview.example.com%s"}`, r.URL.Path)
	})
	for flags, want := range map[string]string{
		"":            "https://preview.example.com/proxy-url\n",
		"--port 8080": "https://preview.example.com/ports/8080/proxy-url\n",
	} {
		code, stdout, stderr := w.Run(t, append([]string{"open", "web", "--print"}, strings.Fields(flags)...)...)
		if code != 0 || stdout != want {
			t.Errorf("open %s: exit code %d, %q, want %q; %s", flags, code, stdout, want, stderr)
		}
	}
	w.Serve(func(rw http.ResponseWriter, _ *http.Request) {
		http.Error(rw, "no such instance or verb", http.StatusNotFound)
	})
	for flags, told := range map[string]bool{"": false, "--port 8080": true} {
		code, _, stderr := w.Run(t, append([]string{"open", "web", "--print"}, strings.Fields(flags)...)...)
		if code != cli.ExitFailure || strings.Contains(stderr, "leave --port out") != told || !strings.Contains(stderr, "no such instance or verb") {
			t.Errorf("open %s of what is not there: exit code %d, %q", flags, code, stderr)
		}
	}
	if code, _, stderr := w.Run(t, "open", "web", "--port", "70000"); code != cli.ExitUsage || !strings.Contains(stderr, "--port") {
		t.Errorf("port 70000: exit code %d, %q", code, stderr)
	}
}

// The address is a data plane's, and so is that of a data plane that cannot get the token.
func TestAddressesOfServersCannotDrawOnTheTerminal(t *testing.T) {
	w := newWorld(t)
	w.Serve(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"url": "https://preview.example.com/\u001b[2J\u009b2J"}`)
	})
	if code, stdout, stderr := w.Run(t, "open", "web", "--print"); code != 0 || stdout != "https://preview.example.com/\\x1b[2J\\x9b2J\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	w.Has(clitest.Objects{"sandboxrunners": {"web": {
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": "web", "namespace": "default", "uid": "u"},
		"status": map[string]any{"phase": "Ready", "dataPlane": map[string]any{"url": "https://a%C2%9B2J\u202e.example.com/x", "verbs": []any{"proxy-url"}}},
	}}})
	code, stdout, stderr := w.Run(t, "open", "web", "--print")
	if code != cli.ExitFailure || stdout != "" || !strings.Contains(stderr, `"https://a%C2%9B2J\u202e.example.com/x" has a host with other signs than those of ASCII`) || strings.ContainsAny(stderr, "\u009b\u202e") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	said := &cli.DiagnosedError{Text: "another CA, with SHA-256 \x1b]0;x\x07", Err: errors.New("a reason")}
	if text := cli.Explain(said); text != `another CA, with SHA-256 \x1b]0;x\x07` {
		t.Errorf("it says %q", text)
	}
}

// While the command stays, a browser that comes for a page after its time is led to another link for
// that page; nobody else is, and afterwards nobody at all.
func TestOpenThatStaysRenewsThePreview(t *testing.T) {
	w := newWorld(t)
	asked := make(chan map[string]any, 10)
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked <- body
		fmt.Fprintf(rw, `{"url": "https://preview.example.com/enter?n=%d"}`, len(asked))
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, errs, ended := w.Begin(ctx, strings.NewReader(""), "open", "web", "--print", "--stay", "--path", "/first", "--for", "5m")
	clitest.Await(t, errs, "is renewed for as long as")
	first := <-asked
	renew, _ := first["renewURL"].(string)
	if u, err := url.Parse(renew); err != nil || u.Hostname() != "127.0.0.1" || len(u.Path) < 20 || first["path"] != "/first" {
		t.Fatalf("the first link was asked for with %v", first)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(renew + "?path=%2Fa%3Fb%3Dc")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	again := <-asked
	if res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "https://preview.example.com/enter") {
		t.Errorf("the browser got %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	if again["path"] != "/a?b=c" || again["renewURL"] != renew || again["expirationSeconds"] != first["expirationSeconds"] {
		t.Errorf("another link was asked for with %v", again)
	}
	for _, wrong := range []string{"/", "/renew", strings.TrimPrefix(renew[:len(renew)-1], "http://"+res.Request.URL.Host)} {
		res, err := browser.Get("http://" + res.Request.URL.Host + wrong + "?path=/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered %d", wrong, res.StatusCode)
		}
	}
	cancel()
	if code := <-ended; code != 130 && code != 0 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := browser.Get(renew); err == nil {
		t.Error("it is renewed after the command has ended")
	}
}

func TestTheTimesOfPreviewsAreThoseOfTheDataPlane(t *testing.T) {
	if client.MinPreview != preview.MinSession || client.MaxPreview != preview.MaxSession {
		t.Errorf("from %s to %s, want from %s to %s", client.MinPreview, client.MaxPreview, preview.MinSession, preview.MaxSession)
	}
}
