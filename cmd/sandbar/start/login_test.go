// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package start

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/client/workspacetest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// certificateFiles writes a client certificate that ends at a time, and its key.
func certificateFiles(t *testing.T, dir, name string, end time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Put(t, dir, name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	clitest.Put(t, dir, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// loggingIn is a world without a kubeconfig whose folder DIR has the workspace's CA, and credentials for it.
func loggingIn(t *testing.T, k *workspacetest.Workspace) (w *world, dir string) {
	t.Helper()
	w, dir = atStart(t, k), t.TempDir()
	w.Kubeconfig = filepath.Join(dir, "kubeconfig")
	clitest.Put(t, dir, "ca.pem", string(w.Bundle))
	clitest.Put(t, dir, "token", clitest.Token+"\n")
	clitest.Put(t, dir, "two-tokens", clitest.Token+" "+clitest.Token)
	clitest.Put(t, dir, "large", strings.Repeat("a", maxToken+1))
	clitest.Put(t, dir, "plugin", fmt.Sprintf("#!/bin/sh\ncat <<E\n{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"%s\"}}\nE\n", clitest.Token))
	if err := os.Chmod(filepath.Join(dir, "plugin"), 0o700); err != nil {
		t.Fatal(err)
	}
	certificateFiles(t, dir, "client", time.Now().Add(time.Hour))
	certificateFiles(t, dir, "expired", time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	return w, dir
}

func TestLoginTriesACredentialAndWritesIt(t *testing.T) {
	const url, ca = "SERVER/clusters/root:alice", " --certificate-authority DIR/ca.pem"
	var golden strings.Builder
	for _, c := range []struct {
		name, args, stdin string
		workspace         *workspacetest.Workspace
	}{
		{name: "by a token", args: "login " + url + " --token " + clitest.Token + ca},
		{name: "by a token from stdin", args: "login " + url + " --token -" + ca, stdin: clitest.Token + "\n"},
		{name: "by a file, in a namespace", args: "login " + url + " --token-file DIR/token -n team" + ca},
		{name: "by a plugin, under another name", args: "login " + url + " --exec-command DIR/plugin --context mine" + ca},
		{
			name: "by a certificate", args: "login " + url + " --client-certificate DIR/client.pem --client-key DIR/client.key" + ca,
			workspace: answering(http.StatusCreated, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"alice"}}}`),
		},
		{
			name: "by a certificate that the server does not trust", args: "login " + url + " --client-certificate DIR/client.pem --client-key DIR/client.key" + ca,
			workspace: answering(http.StatusCreated, `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:anonymous"}}}`),
		},
		{name: "by a certificate that has expired", args: "login " + url + " --client-certificate DIR/expired.pem --client-key DIR/expired.key" + ca},
		{name: "by a certificate without its key", args: "login " + url + " --client-certificate DIR/client.pem"},
		{name: "by the key of another certificate", args: "login " + url + " --client-certificate DIR/client.pem --client-key DIR/expired.key"},
		{name: "with a token that kcp does not know", args: "login " + url + " --token other" + ca},
		{
			name: "without access to the workspace", args: "login " + url + " --token " + clitest.Token + ca,
			workspace: &workspacetest.Workspace{Denied: map[string]bool{"POST /apis/authentication.k8s.io/v1/selfsubjectreviews": true}},
		},
		{name: "without the server's CA", args: "login " + url + " --token " + clitest.Token},
		{
			name: "a server that redirects", args: "login " + url + " --token " + clitest.Token + ca,
			workspace: &workspacetest.Workspace{Before: func(rw http.ResponseWriter, r *http.Request) bool {
				http.Redirect(rw, r, "http://elsewhere.example.com/", http.StatusMovedPermanently)
				return true
			}},
		},
		{
			name: "a server that acts on terminals", args: "login " + url + " --token " + clitest.Token + ca,
			workspace: answering(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"\u001b[2J\u202e","code":403}`),
		},
		{name: "without a credential", args: "login " + url},
		{name: "with two credentials", args: "login " + url + " --token a --token-file DIR/token"},
		{name: "with a token that is none", args: "login " + url + " --token-file DIR/two-tokens"},
		{name: "with a token without an end", args: "login " + url + " --token-file DIR/large"},
		{name: "with an empty token", args: "login " + url + " --token -"},
		{name: "with a file that is not there", args: "login " + url + " --token-file DIR/none"},
		{name: "an argument of no program", args: "login " + url + " --token a --exec-arg b"},
		{name: "a program that is not there", args: "login " + url + " --exec-command DIR/none" + ca},
		{name: "without a workspace", args: "login SERVER --token a"},
		{name: "in the clear", args: "login http://kcp.example.com/clusters/root:alice --token a"},
		{name: "without a URL", args: "login --token a"},
		{name: "with two servers", args: "login " + url + " --server https://other.example.com --token a"},
	} {
		k := c.workspace
		if k == nil {
			k = &workspacetest.Workspace{}
		}
		w, dir := loggingIn(t, k)
		args := strings.NewReplacer("SERVER", w.URL, "DIR", dir).Replace(c.args)
		code, stdout, stderr := w.RunWith(t, strings.NewReader(c.stdin), strings.Fields(args)...)
		said := strings.NewReplacer(w.URL, "https://kcp.example.com", strings.TrimPrefix(w.URL, "https://"), "kcp.example.com", dir, "DIR", clitest.Token, "TOKEN").Replace(stdout + stderr)
		fmt.Fprintf(&golden, "# %s\n$ sandbar %s\n%s(exit code %d)\n\n", c.name, strings.NewReplacer("SERVER", "https://kcp.example.com", clitest.Token, "TOKEN").Replace(c.args), said, code)
		if strings.Contains(stdout+stderr, clitest.Token) {
			t.Errorf("%s: the token is shown", c.name)
		}
		if _, err := os.Stat(w.Kubeconfig); code != 0 && err == nil {
			t.Errorf("%s: a kubeconfig was written", c.name)
		}
		if code != 0 {
			continue
		}
		if code, _, stderr := w.Run(t, "whoami"); code != 0 {
			t.Errorf("%s: what was written does not lead to the workspace: %s", c.name, stderr)
		}
		if code, _, stderr := w.Run(t, "logout"); code != 0 {
			t.Errorf("%s: logout: %s", c.name, stderr)
		}
		if left, err := os.ReadFile(w.Kubeconfig); err != nil || strings.Contains(string(left), clitest.Token) || strings.Contains(string(left), "root:alice") {
			t.Errorf("%s: after the logout the kubeconfig has %s", c.name, left)
		}
	}
	clitest.CompareGolden(t, "login.golden", golden.String())
}

func TestLogoutLeavesWhatLoginHasNotWritten(t *testing.T) {
	w := atStart(t, &workspacetest.Workspace{})
	before, err := os.ReadFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var golden strings.Builder
	for _, args := range []string{"logout", "logout --context none", "logout now"} {
		code, stdout, stderr := w.Run(t, strings.Fields(args)...)
		fmt.Fprintf(&golden, "$ sandbar %s\n%s(exit code %d)\n\n", args, stdout+stderr, code)
	}
	clitest.CompareGolden(t, "logout.golden", golden.String())
	if after, err := os.ReadFile(w.Kubeconfig); err != nil || string(after) != string(before) {
		t.Errorf("the kubeconfig was changed: %s", after)
	}
}

// A context of another server keeps its credential: nobody can make it again.
func TestLoginRefusesANameThatLeadsElsewhere(t *testing.T) {
	w, dir := loggingIn(t, &workspacetest.Workspace{})
	login := func(path string, extra ...string) (int, string) {
		code, _, stderr := w.Run(t, append([]string{"login", w.URL + "/clusters/" + path, "--token", clitest.Token, "--certificate-authority", filepath.Join(dir, "ca.pem")}, extra...)...)
		return code, stderr
	}
	if code, stderr := login("root:alice", "--context", "mine"); code != 0 {
		t.Fatal(stderr)
	}
	before, err := os.ReadFile(w.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	code, stderr := login("root:bob", "--context", "mine")
	if want := "leads to " + w.URL + "/clusters/root:alice: nothing has been changed; choose another name with --context"; code != cli.ExitUsage || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if after, err := os.ReadFile(w.Kubeconfig); err != nil || string(after) != string(before) {
		t.Errorf("the kubeconfig was changed: %s", after)
	}
	if code, stderr := login("root:bob"); code != 0 {
		t.Error(stderr)
	}
	cfg, err := clientcmd.LoadFromFile(w.Kubeconfig)
	if err != nil || len(cfg.Contexts) != 2 || cfg.CurrentContext != "root:bob@"+strings.TrimPrefix(w.URL, "https://") {
		t.Errorf("the kubeconfig has %v, and %s is current: %v", cfg.Contexts, cfg.CurrentContext, err)
	}
}

func TestLoginThatWaitsForATokenEndsWithAnInterrupt(t *testing.T) {
	w, _ := loggingIn(t, &workspacetest.Workspace{})
	a := w.AtTerminal(t, "login", w.URL+"/clusters/root:alice", "--token", "-")
	clitest.Await(t, a.Screen, "The token is read from this terminal")
	a.Press(clitest.CtrlC)
	a.Ends(cli.ExitInterrupted)
}
