// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/install/doctor"
)

func TestFindingsForPeopleAndForPrograms(t *testing.T) {
	findings := []doctor.Finding{
		{Check: "kcp", State: doctor.OK, Detail: "it answers"},
		{Check: "data plane", State: doctor.Warning, Detail: "it says \x1b[2J", Remedy: "renew it"},
		{Check: "previews", State: doctor.Skipped, Detail: "needs the check provider"},
	}
	var out bytes.Buffer
	if err := report(&out, findings, false); err != nil {
		t.Errorf("without a failure: %v", err)
	}
	if want := "ok       kcp           it answers\n" +
		"warning  data plane    it says \\x1b[2J\n" +
		"                       renew it\n" +
		"skipped  previews      needs the check provider\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}

	out.Reset()
	findings = append(findings, doctor.Finding{Check: "storage", State: doctor.Failed, Detail: "none"})
	if err := report(&out, findings, true); !errors.Is(err, errUnwell) {
		t.Errorf("with a failure: %v", err)
	}
	var got struct{ Findings []doctor.Finding }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Findings) != len(findings) || got.Findings[1] != findings[1] {
		t.Errorf("got %+v, %v", got, err)
	}
}

// client-go adds the administrator's token to the request that follows a redirect to any place, also without TLS.
func TestTheAdministratorsCredentialsDoNotFollowARedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was called with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			asked++
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "the-administrators-token"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, path); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"doctor --timeout 5s", "init --dry-run --timeout 5s --dataplane-url https://dataplane.test --image runner=x"} {
		asked = 0
		cmd := newRootCommand()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append(strings.Fields(command), "--kcp-kubeconfig", path, "--runtime-kubeconfig", path))
		if err := cmd.ExecuteContext(t.Context()); err == nil || asked == 0 {
			t.Errorf("%s: %v after %d questions", command, err, asked)
		}
	}
}

func TestFlagsOfDoctor(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"": "--kcp-kubeconfig and --runtime-kubeconfig are required",
		"--kcp-kubeconfig a --runtime-kubeconfig b -o yaml":                   `-o "yaml" is not a format`,
		"--kcp-kubeconfig " + missing + " --runtime-kubeconfig b":             "reading --kcp-kubeconfig",
		"--kcp-kubeconfig " + broken + " --runtime-kubeconfig b":              "reading --kcp-kubeconfig",
		"--kcp-kubeconfig a --runtime-kubeconfig b --kro-service-account kro": "--kro-service-account",
		"--kcp-kubeconfig a --runtime-kubeconfig b everything":                "unknown command",
	} {
		cmd := newRootCommand()
		cmd.SetOut(io.Discard)
		cmd.SetArgs(append([]string{"doctor"}, strings.Fields(args)...))
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("doctor %s: %v, want %s", args, err, want)
		}
	}
}
