// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/login"
	"github.com/sandbar-dev/sandbar/client/workspacetest"
)

const server = "https://kcp.example.com/clusters/root:alice"

func TestTheAddressOfAWorkspaceHasOneForm(t *testing.T) {
	for text, want := range map[string]string{
		server:       server,
		server + "/": server,
		"https://KCP.example.com:443/clusters/root:alice": server,
		"https://kcp.example.com:6443/clusters/abc123":    "https://kcp.example.com:6443/clusters/abc123",
		"https://[2001:DB8::1]/clusters/root":             "https://[2001:db8::1]/clusters/root",
		"https://[::1]:6443/clusters/root":                "https://[::1]:6443/clusters/root",
		"https://proxy.example.com/kcp/clusters/root:a:b": "https://proxy.example.com/kcp/clusters/root:a:b",
		"http://kcp.example.com/clusters/root:alice":      "does not travel in the clear",
		"kcp.example.com":                                 "is not an https URL",
		"file:///clusters/root":                           "is not an https URL",
		"https:///clusters/root":                          "is not an https URL",
		"https://kcp.example.com":                         "add /clusters/WORKSPACE to it",
		"https://kcp.example.com/clusters/":               "is not a workspace",
		"https://kcp.example.com/clusters/root:alice/api": "is not a workspace",
		"https://kcp.example.com/clusters/*":              "is not a workspace",
		"https://a:b@kcp.example.com/clusters/root":       "has no user",
		"https://kcp.example.com/clusters/root?a=b":       "no query",
		"https://kcp.example.com/clusters/root#a":         "no fragment",
		"https://kcp.example.com/clusters/root%0a\x1b[2J": "is not a URL",
		"https://kcp.example.com/clusters/root%1b%5b2J":   "is not a workspace",
	} {
		got, err := login.ParseServer(text)
		if err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q and %v, want %s", text, got, err, want)
		}
	}
	if got := login.ContextName("https://[::1]:6443/clusters/root:alice"); got != "root:alice@[::1]:6443" {
		t.Errorf("the context is %s", got)
	}
}

// A workspace's path is from the command line or the environment, and the credential goes where it leads.
func TestAnotherWorkspaceIsOneOfTheSameServer(t *testing.T) {
	for _, c := range []struct{ address, path, want string }{
		{"https://kcp.example.com/clusters/root:alice", "root:team", "https://kcp.example.com/clusters/root:team"},
		{"https://kcp.example.com/clusters/root:alice/", "1r2wfrj4q0pxwv8i", "https://kcp.example.com/clusters/1r2wfrj4q0pxwv8i"},
		{"https://proxy.example.com/kcp/clusters/root", "root:a:b", "https://proxy.example.com/kcp/clusters/root:a:b"},
		{"https://kcp.example.com", "root", "https://kcp.example.com/clusters/root"},
		{"https://kcp.example.com:6443/", "root", "https://kcp.example.com:6443/clusters/root"},
	} {
		if got, err := login.InWorkspace(c.address, c.path); err != nil || got != c.want {
			t.Errorf("%s in %s: got %q, %v, want %q", c.address, c.path, got, err, c.want)
		}
	}
	for _, path := range []string{"", "*", "root:", ":root", "root/../alice", "root:..", "../..", "root%2f", "@elsewhere.example.com", "Root", "root?a", "root#a", "root\n", "\x1b[2J"} {
		if got, err := login.InWorkspace("https://kcp.example.com/clusters/root:alice", path); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
}

// file is a kubeconfig with a content.
func file(t *testing.T, cfg *clientcmdapi.Config) clientcmd.ConfigAccess {
	t.Helper()
	access := clientcmd.NewDefaultPathOptions()
	access.LoadingRules.ExplicitPath = filepath.Join(t.TempDir(), "kubeconfig")
	if cfg != nil {
		if err := clientcmd.WriteToFile(*cfg, access.GetExplicitFile()); err != nil {
			t.Fatal(err)
		}
	}
	return access
}

// text is a kubeconfig in a few lines.
func text(t *testing.T, access clientcmd.ConfigAccess) string {
	t.Helper()
	cfg, err := access.GetStartingConfig()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for name, c := range cfg.Contexts {
		out = append(out, fmt.Sprintf("context %s: %s %s %s", name, c.Cluster, c.AuthInfo, c.Namespace))
	}
	for name, c := range cfg.Clusters {
		ca := strings.TrimPrefix(c.CertificateAuthority, filepath.Dir(access.GetExplicitFile())+"/")
		out = append(out, fmt.Sprintf("cluster %s: %s %s%s", name, c.Server, ca, c.CertificateAuthorityData))
	}
	for name, u := range cfg.AuthInfos {
		out = append(out, fmt.Sprintf("user %s: %s", name, u.Token))
	}
	return sorted(out) + "\ncurrent " + cfg.CurrentContext
}

// sorted joins lines in the order of the alphabet.
func sorted(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// kubeconfig is one with the context "work" of another server, and what change adds.
func kubeconfig(change func(*clientcmdapi.Config)) *clientcmdapi.Config {
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["work"] = &clientcmdapi.Cluster{Server: "https://work.example.com", CertificateAuthorityData: []byte("work's")}
	cfg.AuthInfos["work"] = &clientcmdapi.AuthInfo{Token: "works"}
	cfg.Contexts["work"] = &clientcmdapi.Context{Cluster: "work", AuthInfo: "work", Namespace: "team"}
	cfg.CurrentContext = "work"
	if change != nil {
		change(cfg)
	}
	return cfg
}

// with is a login with a token.
func with(token, contextName string) login.Login {
	return login.Login{Server: server, Context: contextName, User: &clientcmdapi.AuthInfo{Token: token}}
}

const work = "cluster work: https://work.example.com work's\ncontext work: work work team\n"

func TestALoginIsWrittenBesideWhatIsThere(t *testing.T) {
	const name = "root:alice@kcp.example.com"
	access := file(t, kubeconfig(nil))
	got, err := with("first", "").Write(access)
	if err != nil || got != name {
		t.Fatalf("got %s, %v", got, err)
	}
	want := func(namespace, token string) string {
		return sorted([]string{
			"cluster work: https://work.example.com work's", "context work: work work team", "user work: works",
			"cluster " + name + ": " + server + " ", "context " + name + ": " + name + " " + name + " " + namespace, "user " + name + ": " + token,
		}) + "\ncurrent " + name
	}
	if diff := cmp.Diff(want("", "first"), text(t, access)); diff != "" {
		t.Errorf("after a login (-want +got):\n%s", diff)
	}
	// Somebody works in a namespace, and logs in again when the token has expired.
	cfg, err := access.GetStartingConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Contexts[name].Namespace, cfg.CurrentContext = "mine", "work"
	if err := clientcmd.ModifyConfig(access, *cfg, true); err != nil {
		t.Fatal(err)
	}
	if _, err := with("second", "").Write(access); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want("mine", "second"), text(t, access)); diff != "" {
		t.Errorf("after a second login (-want +got):\n%s", diff)
	}
	other := with("third", "")
	other.Namespace = "yours"
	if _, err := other.Write(access); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want("yours", "third"), text(t, access)); diff != "" {
		t.Errorf("after a login with a namespace (-want +got):\n%s", diff)
	}
	if name, user, err := login.Logout(access, ""); err != nil || name != got || user.Token != "third" {
		t.Fatalf("logout: %s, %v, %v", name, user, err)
	}
	if diff := cmp.Diff(work+"user work: works\ncurrent ", text(t, access)); diff != "" {
		t.Errorf("after a logout (-want +got):\n%s", diff)
	}
}

func TestAKubeconfigIsMadeForItsOwnerAlone(t *testing.T) {
	access := file(t, nil)
	if _, err := with("first", "").Write(access); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(access.GetExplicitFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig's mode is %v, %v", info.Mode(), err)
	}
	// The usual place, which nobody has made yet.
	path := filepath.Join(t.TempDir(), "new", "config")
	t.Setenv("KUBECONFIG", path)
	if _, err := with("first", "").Write(clientcmd.NewDefaultPathOptions()); err != nil {
		t.Fatal(err)
	}
	if cfg, err := clientcmd.LoadFromFile(path); err != nil || len(cfg.AuthInfos) != 1 {
		t.Errorf("the file of $KUBECONFIG has %v, %v", cfg, err)
	}
}

func TestALoginOverwritesNothingThatLeadsElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		login  login.Login
		before func(*clientcmdapi.Config)
		want   string // empty if it is written
	}{
		"a context of another server":   {with("t", "work"), nil, "context work already, and it leads to https://work.example.com"},
		"a context without its cluster": {with("t", "work"), func(c *clientcmdapi.Config) { delete(c.Clusters, "work") }, ""},
		"a context of another workspace of the server": {
			with("t", "work"),
			func(c *clientcmdapi.Config) { c.Clusters["work"].Server = "https://kcp.example.com/clusters/root:bob" }, "leads to https://kcp.example.com/clusters/root:bob",
		},
		"a context of the same workspace": {with("t", "work"), func(c *clientcmdapi.Config) { c.Clusters["work"].Server = server + "/" }, ""},
		"a context whose user others use": {
			with("t", "work"), func(c *clientcmdapi.Config) {
				c.Clusters["work"].Server = server
				c.Contexts["home"] = &clientcmdapi.Context{Cluster: "home", AuthInfo: "work"}
			}, "user work already, and it is that of the context home too",
		},
		"a cluster of the name that leads elsewhere": {
			with("t", "new"), func(c *clientcmdapi.Config) {
				c.Clusters["new"] = &clientcmdapi.Cluster{Server: "https://other.example.com"}
			},
			"cluster new already, and it leads to https://other.example.com",
		},
		"a user of the name": {
			with("t", "new"), func(c *clientcmdapi.Config) { c.AuthInfos["new"] = &clientcmdapi.AuthInfo{Token: "precious"} },
			"user new already, and it was not written by a login",
		},
	} {
		t.Run(name, func(t *testing.T) {
			access := file(t, kubeconfig(c.before))
			before := text(t, access)
			_, err := c.login.Write(access)
			var taken *login.TakenError
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &taken) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if after := text(t, access); c.want != "" && after != before || c.want == "" && after == before {
				t.Errorf("the kubeconfig is\n%s", after)
			}
		})
	}
}

// The CA of a context that exists stays, unless another one is given.
func TestALoginKeepsTheCAThatAContextHas(t *testing.T) {
	own := func(c *clientcmdapi.Config) { c.Clusters["work"].Server = server }
	access := file(t, kubeconfig(own))
	if _, err := with("t", "work").Write(access); err != nil {
		t.Fatal(err)
	}
	if got := text(t, access); !strings.Contains(got, server+" work's") {
		t.Errorf("the kubeconfig is\n%s", got)
	}
	other := with("t", "work")
	other.CAFile = filepath.Join(filepath.Dir(access.GetExplicitFile()), "ca.pem")
	if _, err := other.Write(access); err != nil {
		t.Fatal(err)
	}
	if got := text(t, access); !strings.Contains(got, server+" ca.pem") {
		t.Errorf("the kubeconfig is\n%s", got)
	}
}

func TestALoginChangesTheFileThatHasTheContext(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	t.Setenv("KUBECONFIG", first+string(filepath.ListSeparator)+second)
	if err := clientcmd.WriteToFile(*clientcmdapi.NewConfig(), first); err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(*kubeconfig(func(c *clientcmdapi.Config) { c.Clusters["work"].Server = server }), second); err != nil {
		t.Fatal(err)
	}
	if _, err := with("new", "work").Write(clientcmd.NewDefaultPathOptions()); err != nil {
		t.Fatal(err)
	}
	one, err := clientcmd.LoadFromFile(first)
	if err != nil {
		t.Fatal(err)
	}
	two, err := clientcmd.LoadFromFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if len(one.AuthInfos) != 0 || two.AuthInfos["work"].Token != "new" || two.Contexts["work"].Namespace != "team" {
		t.Errorf("the first file has %v, the second %v", one.AuthInfos, two.AuthInfos["work"])
	}
}

func TestALogoutRemovesWhatALoginHasWrittenAlone(t *testing.T) {
	own := func(c *clientcmdapi.Config) { c.Clusters["work"].Server = server }
	access := file(t, kubeconfig(own))
	before := text(t, access)
	if _, _, err := login.Logout(access, "work"); !errors.Is(err, login.ErrNotOurs) || text(t, access) != before {
		t.Errorf("a context that no login has written: %v\n%s", err, text(t, access))
	}
	var missing *login.NoContextError
	if _, _, err := login.Logout(access, "none"); !errors.As(err, &missing) || missing.Name != "none" {
		t.Errorf("a context that is not there: %v", err)
	}
	if _, err := with("t", "work").Write(access); err != nil {
		t.Fatal(err)
	}
	if _, _, err := login.Logout(access, "work"); err != nil {
		t.Fatal(err)
	}
	// The context was there before the login, and so it stays, without the credential.
	if diff := cmp.Diff("cluster work: "+server+" work's\ncontext work: work  team\ncurrent work", text(t, access)); diff != "" {
		t.Errorf("after a logout (-want +got):\n%s", diff)
	}
	if _, err := with("t", "new").Write(access); err != nil {
		t.Fatal(err)
	}
	cfg, err := access.GetStartingConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Contexts["copy"] = &clientcmdapi.Context{Cluster: "new", AuthInfo: "new"}
	if err := clientcmd.ModifyConfig(access, *cfg, true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := login.Logout(access, "new"); err != nil {
		t.Fatal(err)
	}
	got := text(t, access)
	if strings.Contains(got, "user") || strings.Contains(got, "context new") || !strings.Contains(got, "context copy: new  ") || !strings.Contains(got, "cluster new") {
		t.Errorf("the credential or the cluster that another context uses is\n%s", got)
	}
}

// serve is a workspace behind a server, and a kubeconfig's content with a token for it.
func serve(t *testing.T, w http.Handler, token string) *clientcmdapi.Config {
	t.Helper()
	s := httptest.NewTLSServer(w)
	t.Cleanup(s.Close)
	return kubeconfig(func(c *clientcmdapi.Config) {
		c.Clusters["work"] = &clientcmdapi.Cluster{
			Server: s.URL + "/clusters/root:alice", CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		}
		c.AuthInfos["work"].Token = token
	})
}

func TestACredentialIsTriedBeforeItIsWritten(t *testing.T) {
	me, err := login.Try(t.Context(), serve(t, &workspacetest.Workspace{Token: "alices"}, "alices"), "work")
	if err != nil || me.Username != "alice" {
		t.Errorf("got %v, %v", me, err)
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>not kcp</html>") })
	for name, c := range map[string]struct {
		server http.Handler
		change func(*clientcmdapi.Config)
		want   login.Refusal
	}{
		"another token":   {server: &workspacetest.Workspace{Token: "bobs"}, want: login.Unknown},
		"no access":       {server: &workspacetest.Workspace{Denied: map[string]bool{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": true}}, want: login.NoAccess},
		"a redirect":      {server: http.RedirectHandler("http://elsewhere.invalid/", http.StatusFound), want: login.Unreachable},
		"another program": {server: page, want: login.Unreachable},
		"another CA": {
			server: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the credential was sent: %s", r.URL) }),
			change: func(c *clientcmdapi.Config) { c.Clusters["work"].CertificateAuthorityData = nil }, want: login.NotVerified,
		},
		"a user who is nobody": {server: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:anonymous"}}}`)
		}), want: login.Anonymous},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := serve(t, c.server, "alices")
			if c.change != nil {
				c.change(cfg)
			}
			_, err := login.Try(t.Context(), cfg, "work")
			var refused *login.RefusedError
			if !errors.As(err, &refused) || refused.Refusal != c.want || strings.Contains(err.Error(), "alices") {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("a server that is silent ends with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cfg := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client has gone
			cancel()
			<-r.Context().Done()
		}), "alices")
		if _, err := login.Try(ctx, cfg, "work"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a server that is silent ends after its time", func(t *testing.T) {
		cfg := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}), "alices")
		var refused *login.RefusedError
		if _, err := login.TryWithin(t.Context(), cfg, "work", 50*time.Millisecond); !errors.As(err, &refused) || refused.Refusal != login.Unreachable || !strings.Contains(err.Error(), "it does not answer within 50ms") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the redirect is in the error", func(t *testing.T) {
		_, err := login.Try(t.Context(), serve(t, http.RedirectHandler("http://elsewhere.invalid/", http.StatusFound), "alices"), "work")
		var redirect *client.RedirectError
		if !errors.As(err, &redirect) || redirect.To != "http://elsewhere.invalid/" {
			t.Errorf("got %v", err)
		}
	})
}
