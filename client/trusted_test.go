// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWhereTrustIsStored(t *testing.T) {
	configs, err := os.UserConfigDir()
	if err != nil {
		t.Skip(err)
	}
	other := t.TempDir()
	for own, want := range map[string]string{
		"":    filepath.Join(configs, "sandbar", "trust.json"),
		other: filepath.Join(other, "trust.json"),
	} {
		t.Setenv(ConfigDirVariable, own)
		if got, err := TrustFile(); err != nil || got != want {
			t.Errorf("with %s=%q the file is %q, want %q: %v", ConfigDirVariable, own, got, want, err)
		}
	}
}
