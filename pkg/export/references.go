// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"cmp"
	"slices"
	"sync"
)

// References remember which object each object of a kind names, so that those that name one are looked at when
// that one comes, goes, or is made again under its name. The zero value is empty and ready for use; it is safe for
// concurrent use.
type References struct {
	mu sync.Mutex
	// named is what each object names, naming are the objects that name it.
	named  map[Key]Key
	naming map[Key]map[Key]struct{}
}

// Set notes that an object names another one, and no other any more.
func (r *References) Set(from, to Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(from)
	if r.named == nil {
		r.named, r.naming = map[Key]Key{}, map[Key]map[Key]struct{}{}
	}
	r.named[from] = to
	if r.naming[to] == nil {
		r.naming[to] = map[Key]struct{}{}
	}
	r.naming[to][from] = struct{}{}
}

// Drop notes that an object names none, or is gone.
func (r *References) Drop(from Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(from)
}

func (r *References) drop(from Key) {
	to, ok := r.named[from]
	if !ok {
		return
	}
	delete(r.named, from)
	delete(r.naming[to], from)
	if len(r.naming[to]) == 0 {
		delete(r.naming, to)
	}
}

// To returns the objects that name an object, whether it is there or not, in a fixed order.
func (r *References) To(to Key) []Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Key, 0, len(r.naming[to]))
	for from := range r.naming[to] {
		all = append(all, from)
	}
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}
