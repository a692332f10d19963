// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package kcp runs kcp on a loopback port of the host and makes the kubeconfigs
// of its people. Users are tokens in a file: those of a stack's tenants, which
// the demo and the tests act as, and one administrator whose token, unlike the
// one that kcp makes for itself, outlives a restart.
package kcp

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/kubeconfig"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// UnitName is the name of kcp's unit.
const UnitName = "kcp"

// admin is the administrator's name, and that of the kubeconfig file.
const admin = "kcp-admin"

// Server is one stack's kcp.
type Server struct {
	Dir   state.Dir
	State *state.Stack
	// Bin returns the path of a built binary.
	Bin func(part, name string) string
}

// person is a user of kcp. Everybody is in system:authenticated anyhow.
type person struct{ name, groups string }

var people = []person{
	{admin, "system:kcp:admin"},
	{"alice", "team-a"},
	{"bob", "team-b"},
	{"carol", ""},
	{"dave", ""},
}

// Unit is the unit that runs kcp.
func (s Server) Unit() unit.Spec {
	var env []string
	if s.State.ForTests {
		// By the variable that kcp's own tests set (github.com/kcp-dev/embeddedetcd).
		env = append([]string{"UNSAFE_E2E_HACK_DISABLE_ETCD_FSYNC=true"}, unit.LessCollection...)
	}
	return unit.Spec{
		Name:   UnitName,
		Dir:    s.Dir.Units(),
		LogDir: s.Dir.Logs(),
		Processes: []unit.Process{{
			Name: "kcp",
			Dir:  s.Dir.KCP(),
			Env:  env,
			Args: []string{
				s.Bin("kcp", "kcp"), "start",
				"--root-directory=" + s.Dir.KCP(),
				"--bind-address=127.0.0.1",
				fmt.Sprintf("--secure-port=%d", s.State.KCPPort),
				fmt.Sprintf("--embedded-etcd-client-port=%d", s.State.EtcdClientPort),
				fmt.Sprintf("--embedded-etcd-peer-port=%d", s.State.EtcdPeerPort),
				"--token-auth-file=" + s.Dir.Tokens(),
			},
		}},
	}
}

// Prepare writes the file of users, with a fresh random token for each, unless
// it is there.
func (s Server) Prepare() error {
	if err := os.MkdirAll(s.Dir.KCP(), 0o700); err != nil {
		return fmt.Errorf("creating kcp's folder: %w", err)
	}
	if _, err := os.Stat(s.Dir.Tokens()); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var b strings.Builder
	for _, p := range people {
		fmt.Fprintf(&b, "%s,%s,%s,%q\n", rand.Text(), p.name, p.name, p.groups)
	}
	return state.WriteFile(s.Dir.Tokens(), []byte(b.String()), 0o600)
}

// readyPaths must all answer before kcp is ready for a provider: itself, and
// the workspaces and exports that its bootstrapping makes.
var readyPaths = []string{
	"/readyz",
	"/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspacetypes/universal",
	"/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io",
	"/clusters/root/api/v1/namespaces/default",
}

// WaitReady waits until kcp serves, and writes the kubeconfigs.
func (s Server) WaitReady(ctx context.Context) error {
	var server string
	var ca []byte
	own := filepath.Join(s.Dir.KCP(), "admin.kubeconfig")
	err := unit.Poll(ctx, func() (ok bool) {
		var err error
		server, ca, err = kubeconfig.ServerCA(own, "base")
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("waiting for kcp to write its kubeconfig: %w", err)
	}
	tokens, err := s.tokens()
	if err != nil {
		return err
	}
	client, err := newClient(ca)
	if err != nil {
		return err
	}
	for _, path := range readyPaths {
		err := unit.Poll(ctx, func() bool { return answers(ctx, client, server+path, tokens[admin]) })
		if err != nil {
			return fmt.Errorf("waiting for kcp to answer %s: %w", path, err)
		}
	}
	for name, token := range tokens {
		access := kubeconfig.Access{Server: server, CA: ca, User: name, Token: token}
		if name == admin {
			access.Server += "/clusters/root"
		}
		if err := kubeconfig.Write(s.Dir.Kubeconfig(name), access); err != nil {
			return err
		}
	}
	return nil
}

func (s Server) tokens() (map[string]string, error) {
	data, err := os.ReadFile(s.Dir.Tokens())
	if err != nil {
		return nil, fmt.Errorf("reading the users: %w", err)
	}
	tokens := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.SplitN(line, ",", 3); len(fields) == 3 {
			tokens[fields[1]] = fields[0]
		}
	}
	return tokens, nil
}

func newClient(ca []byte) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("kcp's kubeconfig has no CA")
	}
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}, nil
}

func answers(ctx context.Context, client *http.Client, url, token string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
