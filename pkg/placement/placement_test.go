// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// A namespace that came out otherwise would lose every placement that there is.
func TestTheNamespaceIsAHashOfClusterAndUID(t *testing.T) {
	for _, id := range []ID{
		{Origin: "2hx1zq5kq0a8v3mw", UID: "0b5a9c1e-6a3c-4a52-9b57-2a6ad6a4d3c1"},
		{Origin: "c", UID: "u"},
		{},
		{Origin: strings.Repeat("c", 300), UID: types.UID(strings.Repeat("u", 300))},
	} {
		sum := sha256.Sum256([]byte(id.Origin + "\x00" + string(id.UID)))
		want := "sb-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:26]
		if got := id.Namespace(); got != want || !IsNamespace(got) {
			t.Errorf("%v: got %q, want %q", id, got, want)
		}
	}
	if (ID{Origin: "ab", UID: "c"}).Namespace() == (ID{Origin: "a", UID: "bc"}).Namespace() {
		t.Error("two instances have one namespace")
	}
}

func TestTheNamespaceCostsOneAllocation(t *testing.T) {
	id := ID{Origin: "2hx1zq5kq0a8v3mw", UID: "0b5a9c1e-6a3c-4a52-9b57-2a6ad6a4d3c1"}
	if n := testing.AllocsPerRun(100, func() { _ = id.Namespace() }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
