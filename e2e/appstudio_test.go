// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// TestAppStudio: a product that has no credential serves two people, each with their own token in their own workspace,
// from a project that does not exist to an app that is edited, watched, shared and deleted (003-32, and 003-37 with two providers in TestTwoProvidersOnTwoClusters).
func TestAppStudio(t *testing.T) {
	calm(t)
	alice, bob := newTenant(t, "alice"), newTenant(t, "bob")
	studio := startAppStudio(t)
	browser := newBrowser(t)
	p := browser.open(t, studio.url)
	studio.login(p, alice)
	studio.creates(p)
	until(p, "[...document.querySelectorAll('#files button')].some(b => b.textContent === 'server.mjs')", true)
	// The shell works in the workspace.
	until(p, "document.getElementById('screen').textContent.includes('$')", true)
	eval[bool](p, "document.forms.type.line.value = 'echo $((6*7)); ls', document.forms.type.requestSubmit(), true")
	until(p, "/42\\s[^]*server\\.mjs/.test(document.getElementById('screen').textContent)", true)
	app := studio.shows(browser, p)
	shown := eval[string](p, "document.getElementById('preview').src")
	eval[bool](p, "document.forms.edit.content.value = document.forms.edit.content.value.replace('Hello', 'Edited'), document.forms.edit.requestSubmit(), true")
	eventually(t, "an edit is visible", func() error {
		app.visit(studio.previewLink(p))
		if got := eval[string](app, "document.body.innerText"); got != "Edited from App Studio" {
			return fmt.Errorf("the page shows %q", got)
		}
		return nil
	})
	until(p, fmt.Sprintf("document.getElementById('preview').src !== %q && document.getElementById('preview').ariaBusy === 'false'", shown), true)
	p.screenshot("appstudio")

	// Somebody who has the link alone sees the app, until the link is ended.
	eval[bool](p, "document.getElementById('share').click(), true")
	until(p, "document.getElementById('shared').textContent.includes('https://')", true)
	shared := eval[string](p, "document.getElementById('shared').textContent.match(/https:.*$/)[0]")
	guest := newBrowser(t)
	other := guest.open(t, shared)
	until(other, "document.body.innerText", "Edited from App Studio")
	eval[bool](p, "document.getElementById('revoke').click(), true")
	eventually(t, "the link has ended", func() error {
		other.visit(shared)
		if got := eval[string](other, "document.body.innerText"); strings.Contains(got, "from App Studio") {
			return fmt.Errorf("the page shows %q", got)
		}
		return nil
	})

	// Bob is another person in the same product: he has his own projects, and alice's are not among them.
	his := guest.open(t, studio.url)
	studio.login(his, bob)
	if got := eval[int](his, "document.querySelectorAll('#list li').length"); got != 0 {
		t.Errorf("bob sees %d projects", got)
	}
	if got := eval[string](his, "fetch('api/projects/sandboxrunners/shop').then(r => r.status + ' ' + r.statusText)"); !strings.HasPrefix(got, "404") {
		t.Errorf("bob asks for alice's project in his workspace: %s", got)
	}

	studio.wantNoRuntime()
	eval[bool](p, "document.getElementById('delete').click(), true")
	until(p, "document.querySelectorAll('#list li').length", 0)
	eventually(t, "the project is gone", func() error {
		_, err := alice.dyn.Resource(runners).Namespace("default").Get(t.Context(), "shop", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// creates makes the project "shop" from a Template. The first save brings its first file, and starts the app.
func (s *appStudio) creates(p *tab) {
	s.t.Helper()
	until(p, "[...document.forms.create.resource.options].some(o => o.value === 'sandboxrunners')", true)
	eval[bool](p, "document.forms.create.name.value = 'shop', document.forms.create.requestSubmit(), true")
	until(p, "document.getElementById('phase').textContent", "Ready")
	until(p, "document.forms.edit.content.value.includes('Hello from App Studio')", true)
	eval[bool](p, "document.forms.edit.requestSubmit(), true")
	until(p, "document.getElementById('log').textContent.includes('listening')", true)
}

// shows opens what the frame shows in a tab of its own.
func (s *appStudio) shows(b browser, p *tab) (app *tab) {
	s.t.Helper()
	until(p, "document.getElementById('preview').src !== ''", true)
	app = b.open(s.t, s.previewLink(p))
	until(app, "document.body.innerText", "Hello from App Studio")
	return app
}

// appStudio is a process of examples/appstudio.
type appStudio struct {
	t   *testing.T
	url string
	pid int
}

// startAppStudio starts it with nothing but kcp's address and what its people may trust: no kubeconfig, no home, no
// environment.
func startAppStudio(t *testing.T, others ...*local.Provider) *appStudio {
	t.Helper()
	dir := t.TempDir()
	binary, trust := filepath.Join(dir, "appstudio"), filepath.Join(dir, "trust.json")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./appstudio")
	build.Dir = filepath.Join("..", "examples")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building App Studio: %v\n%s", err, out)
	}
	for _, p := range append(others, world) {
		if err := (session.TrustStore{Path: trust}).Add(client.DataPlane{URL: p.URL, CABundle: pemOf(t, p)}); err != nil {
			t.Fatal(err)
		}
	}
	kcp := world.Stack.KCPUser("alice", "root")
	kcpCA := filepath.Join(dir, "kcp.crt")
	if err := os.WriteFile(kcpCA, kcp.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(kcp.Host)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "--listen", "127.0.0.1:0", "--kcp", "https://"+address.Host, "--kcp-ca", kcpCA, "--trust", trust)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "App Studio is at ")
	if err != nil || !ok {
		t.Fatalf("App Studio says %q, %v", line, err)
	}
	return &appStudio{t, at, cmd.Process.Pid}
}

// login fills the form in, as a person does.
func (s *appStudio) login(p *tab, tn *tenant) {
	s.t.Helper()
	until(p, "document.getElementById('login').hidden", false)
	eval[bool](p, fmt.Sprintf("document.forms.login.workspace.value = %q, document.forms.login.token.value = %q, document.forms.login.requestSubmit(), true", tn.path, tn.token))
	until(p, "document.getElementById('projects').hidden", false)
	if got, want := eval[string](p, "document.getElementById('who').textContent"), tn.user+" in "+tn.path; got != want {
		s.t.Errorf("the page says %q, want %q", got, want)
	}
	if got := eval[string](p, "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"); got != "{}{}" {
		s.t.Errorf("a script of the page can read %q", got)
	}
}

// previewLink is a new link, as the page asks for it.
func (s *appStudio) previewLink(p *tab) string {
	s.t.Helper()
	return eval[string](p, "fetch('api/projects/sandboxrunners/shop/preview', {method: 'POST', body: '{}'}).then(r => r.json()).then(l => l.url)")
}

// wantNoRuntime fails if the process has a connection to the runtime cluster's API server.
func (s *appStudio) wantNoRuntime(others ...*local.Stack) {
	s.t.Helper()
	var clusters []string
	for _, stack := range append(others, world.Stack) {
		server, err := url.Parse(stack.Runtime().Host)
		if err != nil {
			s.t.Fatal(err)
		}
		clusters = append(clusters, server.Host)
	}
	out, err := exec.CommandContext(s.t.Context(), "ss", "-tnpH").Output()
	if err != nil {
		s.t.Fatalf("listing connections (Debian's package iproute2): %v", err)
	}
	mine := 0
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, fmt.Sprintf("pid=%d,", s.pid)) {
			continue
		}
		mine++
		if slices.ContainsFunc(clusters, func(cluster string) bool { return strings.Contains(line, cluster) }) {
			s.t.Errorf("App Studio is connected to the runtime cluster: %s", line)
		}
	}
	if mine == 0 {
		s.t.Error("App Studio has no connections: this test looks in the wrong place")
	}
}
