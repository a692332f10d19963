// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import "testing"

func TestTheWorkspaceIsNamedByItsAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://kcp.example.com/clusters/root:alice":            "root:alice",
		"https://kcp.example.com/prefix/clusters/2hx1zq5k/":      "2hx1zq5k",
		"https://kcp.example.com/clusters/root:alice/api/v1":     "root:alice",
		"https://kcp.example.com":                                "",
		"https://kcp.example.com/clusters/":                      "",
		"https://kcp.example.com/services/x/clusters/root%3Abob": "root:bob",
		"://": "",
	} {
		got, err := nameOf(address)
		if got != want || (want == "") != (err != nil) {
			t.Errorf("%s: %q %v", address, got, err)
		}
	}
}
