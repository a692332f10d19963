// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite(t *testing.T) {
	tests := map[string]struct {
		access Access
		want   string
	}{
		"a user with a token": {
			Access{Server: "https://127.0.0.1:1", CA: []byte("ca"), User: "alice", Token: "t"},
			`apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2E=
    server: https://127.0.0.1:1
  name: stack
contexts:
- context:
    cluster: stack
    user: alice
  name: stack
current-context: stack
kind: Config
users:
- name: alice
  user:
    token: t
`,
		},
		"a user with a certificate": {
			Access{Server: "https://h", CA: []byte("ca"), User: "u", ClientCert: []byte("c"), ClientKey: []byte("k")},
			`apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2E=
    server: https://h
  name: stack
contexts:
- context:
    cluster: stack
    user: u
  name: stack
current-context: stack
kind: Config
users:
- name: u
  user:
    client-certificate-data: Yw==
    client-key-data: aw==
`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "k")
			if err := Write(path, tt.access); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v, want 0600", info, err)
			}
			server, ca, err := ServerCA(path, "stack")
			if err != nil || server != tt.access.Server || string(ca) != "ca" {
				t.Errorf("read back %q, %q, %v", server, ca, err)
			}
			if _, _, err := ServerCA(path, "other"); err == nil {
				t.Error("a cluster that is not there was found")
			}
		})
	}
}
