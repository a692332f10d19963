// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The credential says the provider's name on the runtime cluster. One that was not read would have the provider work
// under the names of another.
func TestTheNamesAreThoseOfTheCredential(t *testing.T) {
	for line, want := range map[string]string{
		"namespace: sandbar-blue-system": "blue", "namespace: sandbar-system": "", "namespace: elsewhere": "", "user: a": "",
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		text := "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: \"https://runtime.test\"}}]\n" +
			"users: [{name: a}]\ncontexts:\n- name: a\n  context:\n    cluster: a\n    " + line + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if names, err := namesIn(path); err != nil || names.String() != want {
			t.Errorf("%s: the provider is called %q, want %q (%v)", line, names, want, err)
		}
	}
	if _, err := namesIn(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a kubeconfig that there is not says a name")
	}
}
