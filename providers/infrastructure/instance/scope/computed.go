// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package scope

import lru "github.com/hashicorp/golang-lru/v2"

// maxComputed bounds the pod revisions that are remembered for one kind; beyond it the least used are computed again.
const maxComputed = 4096

// Computed remembers the revisions of pods that were computed under one state of the operator's settings, by the words of
// the pod and the identity of the templates that it is made of. It belongs to those settings: others begin with none. It is
// safe for concurrent use, and nil remembers nothing.
type Computed struct {
	revisions *lru.Cache[string, string]
}

// NewComputed returns a Computed that remembers nothing yet.
func NewComputed() *Computed {
	revisions, _ := lru.New[string, string](maxComputed) // fails only for a size below one
	return &Computed{revisions: revisions}
}

// Revision returns the revision of a key, and reports whether it is known.
func (c *Computed) Revision(key string) (string, bool) {
	if c == nil {
		return "", false
	}
	return c.revisions.Get(key)
}

// SetRevision notes the revision of a key.
func (c *Computed) SetRevision(key, revision string) {
	if c != nil {
		c.revisions.Add(key, revision)
	}
}
