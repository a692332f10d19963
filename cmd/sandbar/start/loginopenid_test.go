// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client/workspacetest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
	"github.com/sandbar-dev/sandbar/pkg/openid"
	"github.com/sandbar-dev/sandbar/pkg/openid/openidtest"
)

// personal is a world without a kubeconfig, with a folder of its own for logins, in which the program of the kubeconfig's
// plugin is this test's.
func personal(t *testing.T, k *workspacetest.Workspace, i *openidtest.Issuer) (w *world, dir string) {
	t.Helper()
	w, dir = loggingIn(t, k)
	k.Token = "" // the issuer's tokens are not the test's
	clitest.Put(t, dir, "issuer.pem", string(i.CA()))
	t.Setenv(clitest.AsSandbar, "1")
	t.Setenv("SANDBAR_CONFIG_DIR", filepath.Join(dir, "config"))
	return w, dir
}

// loginWith is the command line of a login in the browser.
func loginWith(w *world, i *openidtest.Issuer, dir, path string, more ...string) []string {
	return append([]string{
		"login", w.URL + "/clusters/" + path, "--certificate-authority", filepath.Join(dir, "ca.pem"), "--no-browser",
		"--oidc-issuer-url", i.Server.URL, "--oidc-client-id", openidtest.ClientID, "--oidc-certificate-authority", filepath.Join(dir, "issuer.pem"),
	}, more...)
}

// browseTo follows the address that a login has printed.
func browseTo(t *testing.T, i *openidtest.Issuer, errs *clitest.LockedBuffer) {
	t.Helper()
	clitest.Await(t, errs, "code_challenge_method=S256")
	for line := range strings.Lines(errs.String()) {
		if strings.HasPrefix(line, i.Server.URL+"/auth?") {
			res, err := i.Server.Client().Get(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
	}
}

// logIn logs in with the browser and returns what is said.
func logIn(t *testing.T, w *world, i *openidtest.Issuer, dir, path string, more ...string) (int, string) {
	t.Helper()
	_, errs, ended := w.Begin(t.Context(), strings.NewReader(""), loginWith(w, i, dir, path, more...)...)
	browseTo(t, i, errs)
	return <-ended, errs.String()
}

// loginsIn are the names of the logins that are kept.
func loginsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "config", "logins", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	return names
}

func TestLoginInTheBrowserIsForEveryClientOfTheKubeconfig(t *testing.T) {
	i := openidtest.New(t)
	k := &workspacetest.Workspace{}
	w, dir := personal(t, k, i)
	code, said := logIn(t, w, i, dir, "root:alice")
	if code != 0 || !strings.Contains(said, "You are alice in the workspace root:alice") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	names := loginsIn(t, dir)
	if len(names) != 1 {
		t.Fatalf("the logins are %v", names)
	}
	store := openid.Store{Dir: filepath.Join(dir, "config", "logins")}
	login, err := store.Load(names[0])
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(w.Kubeconfig)
	if err != nil || strings.Contains(string(kubeconfig), login.Tokens.ID) || strings.Contains(string(kubeconfig), login.Tokens.Refresh) {
		t.Errorf("the kubeconfig has a token: %s", kubeconfig)
	}

	// client-go runs the plugin, as kubectl does.
	k.Token = login.Tokens.ID
	if code, _, stderr := w.Run(t, "whoami"); code != 0 {
		t.Errorf("the plugin gives another token: %s", stderr)
	}
	code, out, _ := w.Run(t, "credential", "--login", names[0])
	var credential struct {
		Kind, APIVersion string
		Status           struct{ Token, ExpirationTimestamp string }
	}
	if err := json.Unmarshal([]byte(out), &credential); err != nil || code != 0 || credential.Status.Token != login.Tokens.ID || credential.Status.ExpirationTimestamp == "" ||
		credential.Kind+credential.APIVersion != "ExecCredentialclient.authentication.k8s.io/v1" {
		t.Errorf("credential prints %s", out)
	}

	// A second login ends the first one, and keeps the namespace.
	k.Token = ""
	cfg, err := clientcmd.LoadFromFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Contexts[cfg.CurrentContext].Namespace = "mine"
	if err := clientcmd.WriteToFile(*cfg, w.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	if code, said := logIn(t, w, i, dir, "root:alice"); code != 0 {
		t.Fatal(said)
	}
	if after := loginsIn(t, dir); len(after) != 1 || after[0] == names[0] {
		t.Errorf("after a second login there are the logins %v, before %v", after, names)
	}
	if _, out, _ := w.Run(t, "whoami"); !strings.Contains(out, "NAMESPACE   mine") {
		t.Errorf("the namespace was dropped: %s", out)
	}

	code, _, stderr := w.Run(t, "logout")
	if code != 0 || !strings.Contains(stderr, "the provider has ended it") || len(loginsIn(t, dir)) != 0 || i.Count("/revoke") != 1 {
		t.Errorf("logout: exit code %d, %s, the logins are %v", code, stderr, loginsIn(t, dir))
	}
}

// Two kubeconfigs, perhaps of two customers, call their context by one name.
func TestTwoKubeconfigsWithOneContextNameDoNotShareALogin(t *testing.T) {
	i := openidtest.New(t)
	w, dir := personal(t, &workspacetest.Workspace{}, i)
	if code, said := logIn(t, w, i, dir, "root:alice", "--context", "mine"); code != 0 {
		t.Fatal(said)
	}
	first := loginsIn(t, dir)
	w.Kubeconfig = filepath.Join(dir, "other")
	if code, said := logIn(t, w, i, dir, "root:alice", "--context", "mine"); code != 0 {
		t.Fatal(said)
	}
	if all := loginsIn(t, dir); len(all) != 2 {
		t.Fatalf("the logins are %v", all)
	}
	if code, _, stderr := w.Run(t, "logout"); code != 0 {
		t.Fatal(stderr)
	}
	if left := loginsIn(t, dir); len(left) != 1 || left[0] != first[0] {
		t.Errorf("a logout in one kubeconfig leaves %v, want %v", left, first)
	}
}

func TestALoginInTheBrowserThatFailsLeavesNothing(t *testing.T) {
	denied := map[string]bool{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": true}
	for name, c := range map[string]struct {
		arrange   func(*openidtest.Issuer)
		workspace *workspacetest.Workspace
		more      []string
		browses   bool
		code      int
		want      string
	}{
		"the workspace denies access": {workspace: &workspacetest.Workspace{Denied: denied}, browses: true, code: cli.ExitFailure, want: "denies its user access"},
		"the issuer has another name": {arrange: func(i *openidtest.Issuer) { i.Metadata("issuer", "https://other.example.com") }, code: cli.ExitFailure, want: "nothing has been written"},
		"the page is for another program": {
			arrange: func(i *openidtest.Issuer) { i.Metadata("authorization_endpoint", "file:///etc/passwd") }, code: cli.ExitFailure, want: "is not an https URL",
		},
		"the issuer acts on terminals": {
			arrange: func(i *openidtest.Issuer) {
				i.Before(func(w http.ResponseWriter, _ *http.Request) bool {
					http.Error(w, nasty, http.StatusInternalServerError)
					return true
				})
			}, code: cli.ExitFailure, want: `\x1b]52`,
		},
		"the issuer is in the clear": {more: []string{"--oidc-issuer-url", "http://issuer.example.com"}, code: cli.ExitUsage, want: "--oidc-issuer-url: the issuer"},
		"without a client":           {more: []string{"--oidc-client-id", ""}, code: cli.ExitUsage, want: "go together"},
		"with a token too":           {more: []string{"--token", "a"}, code: cli.ExitUsage, want: "one credential"},
		"an issuer of another CA":    {more: []string{"--oidc-certificate-authority", ""}, code: cli.ExitFailure, want: "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			i := openidtest.New(t)
			if c.arrange != nil {
				c.arrange(i)
			}
			if c.workspace == nil {
				c.workspace = &workspacetest.Workspace{}
			}
			w, dir := personal(t, c.workspace, i)
			out, errs, ended := w.Begin(t.Context(), strings.NewReader(""), loginWith(w, i, dir, "root:alice", c.more...)...)
			if c.browses {
				browseTo(t, i, errs)
			}
			if code := <-ended; code != c.code || !strings.Contains(errs.String(), c.want) || strings.Contains(out.String()+errs.String(), "\x1b") {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs)
			}
			if left := loginsIn(t, dir); len(left) != 0 {
				t.Errorf("the logins are %v", left)
			}
			if _, err := os.Stat(w.Kubeconfig); err == nil {
				t.Error("a kubeconfig was written")
			}
		})
	}
}

// A machine without a browser is logged in on another one, and its kubeconfig has the same plugin afterwards.
func TestLoginOnAnotherDevice(t *testing.T) {
	i := openidtest.New(t)
	k := &workspacetest.Workspace{}
	w, dir := personal(t, k, i)
	args := withDevice(loginWith(w, i, dir, "root:alice"))
	_, errs, ended := w.Begin(t.Context(), strings.NewReader(""), args...)
	clitest.Await(t, errs, "Allow it only if")
	i.Answer("")
	if code := <-ended; code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	want := "Log in on any device, within <time>:\n  page  PROVIDER/page\n  code  WDJB-MJHT\n  both  PROVIDER/page?user_code=WDJB-MJHT\n" +
		"Allow it only if the page shows this code. Do not send it to anybody, and enter no code that somebody sent you.\n"
	said := regexp.MustCompile(`within \S+:`).ReplaceAllString(errs.String(), "within <time>:") // the rest of the provider's five minutes
	if got := strings.ReplaceAll(said, i.Server.URL, "PROVIDER"); !strings.HasPrefix(got, want) || !strings.Contains(got, "You are alice in the workspace root:alice") {
		t.Errorf("it says\n%s", got)
	}
	names := loginsIn(t, dir)
	if len(names) != 1 {
		t.Fatalf("the logins are %v", names)
	}
	login, err := (openid.Store{Dir: filepath.Join(dir, "config", "logins")}).Load(names[0])
	if err != nil {
		t.Fatal(err)
	}
	k.Token = login.Tokens.ID
	if code, _, stderr := w.Run(t, "whoami"); code != 0 {
		t.Errorf("the plugin gives another token: %s", stderr)
	}
}

// withDevice is a command line of login on another device.
func withDevice(args []string) []string {
	return append(slices.DeleteFunc(args, func(arg string) bool { return arg == "--no-browser" }), "--device")
}

func TestALoginOnAnotherDeviceThatFailsLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*openidtest.Issuer)
		problem string
		args    func([]string) []string
		code    int
		want    string
	}{
		"the person refuses": {problem: "access_denied", code: cli.ExitFailure, want: "the provider denies the login, and nothing has been written"},
		"the provider has no such login": {
			arrange: func(i *openidtest.Issuer) { i.Metadata("device_authorization_endpoint", nil) }, code: cli.ExitFailure, want: "leave --device out",
		},
		"the code acts on terminals": {
			arrange: func(i *openidtest.Issuer) { i.Invitation("user_code", nasty) }, problem: "access_denied", code: cli.ExitFailure, want: `code  \x1b]52`,
		},
		"with a browser": {
			args: func(args []string) []string { return append(args, "--device") }, code: cli.ExitUsage, want: "leave --no-browser and --oidc-listen-port out",
		},
		"without a provider": {
			args: func(args []string) []string { return append(args[:2:2], "--token", "a", "--device") }, code: cli.ExitUsage, want: "add --oidc-issuer-url",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := openidtest.New(t)
			if c.arrange != nil {
				c.arrange(i)
			}
			w, dir := personal(t, &workspacetest.Workspace{}, i)
			if c.args == nil {
				c.args = withDevice
			}
			_, errs, ended := w.Begin(t.Context(), strings.NewReader(""), c.args(loginWith(w, i, dir, "root:alice"))...)
			if c.problem != "" {
				clitest.Await(t, errs, "Allow it only if")
				i.Answer(c.problem)
			}
			if code := <-ended; code != c.code || !strings.Contains(errs.String(), c.want) || strings.Contains(errs.String(), "\x1b") {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs)
			}
			if left := loginsIn(t, dir); len(left) != 0 {
				t.Errorf("the logins are %v", left)
			}
			if _, err := os.Stat(w.Kubeconfig); err == nil {
				t.Error("a kubeconfig was written")
			}
		})
	}
}

func TestTheWaitForTheBrowserEndsWithAnInterrupt(t *testing.T) {
	i := openidtest.New(t)
	w, dir := personal(t, &workspacetest.Workspace{}, i)
	ctx, cancel := context.WithCancel(t.Context())
	_, errs, ended := w.Begin(ctx, strings.NewReader(""), loginWith(w, i, dir, "root:alice")...)
	clitest.Await(t, errs, "code_challenge_method=S256")
	cancel()
	if code := <-ended; code != cli.ExitInterrupted || len(loginsIn(t, dir)) != 0 {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestALoginThatHasEndedNamesTheCommandThatLogsInAgain(t *testing.T) {
	i := openidtest.New(t)
	w, dir := personal(t, &workspacetest.Workspace{}, i)
	const again = "log in again: sandbar login URL --oidc-issuer-url https://issuer.example.com --oidc-client-id c"
	args := []string{"--oidc-issuer-url", "https://issuer.example.com", "--oidc-client-id", "c"}
	if code, _, stderr := w.Run(t, append([]string{"credential", "--login", openid.NewName()}, args...)...); code != cli.ExitFailure || !strings.Contains(stderr, again) {
		t.Errorf("a login that is not there: exit code %d, %s", code, stderr)
	}
	store, name := openid.Store{Dir: filepath.Join(dir, "config", "logins")}, openid.NewName()
	config := openid.Config{Issuer: i.Server.URL, ClientID: openidtest.ClientID, CA: i.CA()}
	if err := store.Save(name, openid.Login{Config: config, Tokens: openid.Tokens{Refresh: "old"}}); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := w.Run(t, append([]string{"credential", "--login", name}, args...)...)
	if code != cli.ExitFailure || stdout != "" || !strings.Contains(stderr, again) {
		t.Errorf("a login that has ended: exit code %d, %s%s", code, stdout, stderr)
	}
	if code, _, stderr := w.Run(t, "credential", "--login", "../x"); code != cli.ExitFailure || !strings.Contains(stderr, "not the name of a login") {
		t.Errorf("a name that leads elsewhere: exit code %d, %s", code, stderr)
	}
}

// xdg-open starts a program for any scheme, and the address may be a server's.
func TestOnlyPagesReachABrowser(t *testing.T) {
	dir := t.TempDir()
	clitest.Put(t, dir, "xdg-open", "#!/bin/sh\necho \"$1\" >> "+filepath.Join(dir, "opened")+"\n")
	if err := os.Chmod(filepath.Join(dir, "xdg-open"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	for _, address := range []string{"file:///etc/passwd", "javascript:alert(1)", "vscode://x", "--help", "/etc/passwd", "", "https:", "mailto:a@b.example.com"} {
		if err := cli.Browse(t.Context(), address); err == nil {
			t.Errorf("%q was opened", address)
		}
	}
	for _, address := range []string{"https://a.example.com/?b=c", "http://127.0.0.1:1/"} {
		if err := cli.Browse(t.Context(), address); err != nil {
			t.Error(err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "opened")); err != nil || string(got) != "https://a.example.com/?b=c\nhttp://127.0.0.1:1/\n" {
		t.Errorf("opened %q, %v", got, err)
	}
}
