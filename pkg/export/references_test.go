// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestReferencesFindWhatNamesAnObject(t *testing.T) {
	key := func(cluster, name string) Key {
		return Key{Cluster: cluster, NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
	}
	a, b, elsewhere := key("c", "a"), key("c", "b"), key("d", "a")
	base, other := key("c", "base"), key("c", "other")
	var r References
	want := func(what string, to Key, names ...Key) {
		t.Helper()
		if diff := cmp.Diff(append([]Key{}, names...), r.To(to)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	want("before anything is noted", base)
	r.Set(b, base)
	r.Set(a, base)
	r.Set(elsewhere, key("d", "base"))
	want("two name it", base, a, b)
	r.Set(a, other)
	want("one names another now", base, b)
	want("which it does", other, a)
	r.Drop(b)
	r.Drop(b)
	want("the last is gone", base)
	r.Drop(a)
	r.Drop(elsewhere)
	if len(r.named) > 0 || len(r.naming) > 0 {
		t.Errorf("%v and %v are left", r.named, r.naming)
	}
}
