// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/sandbar-dev/sandbar/pkg/gitignore"
)

// Secrets stay on this machine unless Options.Secrets names them. This file is the one place that
// decides what is withheld. The attack that it stops: code in a sandbox, which may be a model's or
// a dependency's, reads a credential that nobody meant to send and that git does not ignore either.
// Names are compared without regard to case, as macOS does.

// secretDirs hold credentials of tools, whatever the names of the files in them.
var secretDirs = []string{".ssh", ".kube", ".aws", ".azure", ".gnupg", ".gcloud", ".password-store"}

// secretNames are files that hold credentials.
var secretNames = []string{
	"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk",
	".netrc", "_netrc", ".pgpass", ".pypirc", ".git-credentials", ".vault-token", "kubeconfig", "application_default_credentials.json",
}

// secretSuffixes end the names of files that hold keys, alone or with their certificates.
var secretSuffixes = []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".kubeconfig"}

// sampleSuffixes end the names of files that show which variables an environment file needs.
var sampleSuffixes = []string{".example", ".sample", ".template", ".dist", ".defaults", ".schema"}

// keyHead is how much of a file is enough to recognize a private key.
const keyHead = 128

// secretName returns why a path is withheld for its name, empty if it is not.
func secretName(name string, dir bool) string {
	name = strings.ToLower(path.Base(name))
	has := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
	switch {
	case dir && slices.Contains(secretDirs, name):
		return "the directory may hold credentials"
	case dir:
		return ""
	case name == ".env", strings.HasPrefix(name, ".env.") && !slices.ContainsFunc(sampleSuffixes, has):
		return "an environment file may hold secrets"
	case slices.Contains(secretNames, name), slices.ContainsFunc(secretSuffixes, has):
		return "the file may hold a key or a credential"
	default:
		return ""
	}
}

// isPrivateKey reports whether a file begins as private keys do: PEM of any kind, or PuTTY's format.
func isPrivateKey(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	first, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.HasPrefix(first, []byte("-----BEGIN ")) && bytes.Contains(first, []byte("PRIVATE KEY")) ||
		bytes.HasPrefix(first, []byte("PuTTY-User-Key-File-"))
}

const reasonPrivateKey = "the file is a private key"

// allowed holds the secrets that are sent all the same: patterns as in a .gitignore.
type allowed struct{ rules gitignore.Rules }

func allow(patterns []string) allowed {
	var a allowed
	a.rules.Add("", strings.Join(patterns, "\n"))
	return a
}

// has reports whether a path, or a directory above it, was named.
func (a allowed) has(path string, dir bool) bool { return a.rules.Ignored(path, dir) }

// withhold notes a path that stays here, and reports whether it does. key says that the content of
// the file is a private key.
func (t *tree) withhold(path string, dir, key bool) bool {
	reason := secretName(path, dir)
	if reason == "" && key {
		reason = reasonPrivateKey
	}
	if reason == "" || t.allowed.has(path, dir) {
		return false
	}
	t.withheld[path] = reason
	return true
}

// keeps reports whether a path, or a directory above it, is withheld.
func (t *tree) keeps(path string) bool {
	if len(t.withheld) == 0 {
		return false
	}
	if _, ok := t.withheld[path]; ok {
		return true
	}
	for dir := range ancestors(path) {
		if _, ok := t.withheld[dir]; ok {
			return true
		}
	}
	return false
}
