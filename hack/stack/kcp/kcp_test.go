// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package kcp

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/hack/stack/kubeconfig"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

func newServer(t *testing.T) Server {
	t.Helper()
	s := Server{
		Dir: state.Dir(t.TempDir()), State: &state.Stack{KCPPort: 1, EtcdClientPort: 2, EtcdPeerPort: 3},
		Bin: func(part, name string) string { return "/cache/" + part + "/" + name },
	}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnlyAStackForTestsRisksItsDataAndTakesMoreMemory(t *testing.T) {
	s := newServer(t)
	if env := s.Unit().Processes[0].Env; env != nil {
		t.Errorf("a person's kcp has the environment %q", env)
	}
	s.State.ForTests = true
	if diff := cmp.Diff(append([]string{"UNSAFE_E2E_HACK_DISABLE_ETCD_FSYNC=true"}, unit.LessCollection...), s.Unit().Processes[0].Env); diff != "" {
		t.Error(diff)
	}
}

func TestEverybodyHasATokenOfTheirOwnThatOutlivesARestart(t *testing.T) {
	s := newServer(t)
	tokens, err := s.tokens()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, p := range people {
		const enough = 20 // characters of base32: 100 bits
		if token := tokens[p.name]; len(token) < enough || seen[token] {
			t.Errorf("%s has a short or shared token", p.name)
		}
		seen[tokens[p.name]] = true
	}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	again, err := s.tokens()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tokens, again); diff != "" {
		t.Error("tokens changed")
	}
	if info, err := os.Stat(s.Dir.Tokens()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	other, err := newServer(t).tokens()
	if err != nil || other["alice"] == tokens["alice"] {
		t.Errorf("two stacks share a token, %v", err)
	}
}

// pretender answers like a kcp that takes a while: each path first fails once.
// Real kcp is tested with STACK_E2E.
func pretender(t *testing.T, token string) *httptest.Server {
	t.Helper()
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.WriteHeader(http.StatusUnauthorized)
		case asked.Add(1)%2 == 1:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestReadinessIsAskedAsTheAdministratorAndGivesKubeconfigs(t *testing.T) {
	s := newServer(t)
	tokens, err := s.tokens()
	if err != nil {
		t.Fatal(err)
	}
	server := pretender(t, tokens[admin])
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	own := fmt.Sprintf("clusters: [{name: base, cluster: {server: %q, certificate-authority-data: %s}}]", server.URL, base64.StdEncoding.EncodeToString(ca))
	if err := state.WriteFile(filepath.Join(s.Dir.KCP(), "admin.kubeconfig"), []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"alice": server.URL, admin: server.URL + "/clusters/root"} {
		got, gotCA, err := kubeconfig.ServerCA(s.Dir.Kubeconfig(name), "stack")
		if err != nil || got != want || string(gotCA) != string(ca) {
			t.Errorf("%s: server %s, %v, want %s with kcp's CA", name, got, err, want)
		}
	}
}

func TestReadinessGivesUpWithTheReason(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("too late"))
	defer cancel()
	if err := s.WaitReady(ctx); err == nil || err.Error() != "waiting for kcp to write its kubeconfig: too late" {
		t.Errorf("error %v", err)
	}
}
