// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/resize"
)

// maxComputed bounds the pods that are remembered for one kind; beyond it the least used are computed again.
const maxComputed = 4096

// PodFacts are what is to be known of the pod that an instance would have.
type PodFacts struct {
	// Revision is the same for pods that are the same.
	Revision string
	// Resources are those of its containers, completed as the API server does. They must not be changed.
	Resources resize.Wish
	// Late reports whether variables reach it while it runs.
	Late bool
	// EnvNames are the variables that its first container has by the template's words. They must not be changed.
	EnvNames []string
}

// Computed remembers the facts of pods that were computed under one state of the operator's settings, by the words of
// the pod and the identity of the templates that it is made of. It belongs to those settings: others begin with none. It is
// safe for concurrent use, and nil remembers nothing.
type Computed struct {
	pods *lru.Cache[string, PodFacts]
}

// NewComputed returns a Computed that remembers nothing yet.
func NewComputed() *Computed {
	pods, _ := lru.New[string, PodFacts](maxComputed) // fails only for a size below one
	return &Computed{pods: pods}
}

// Pod returns the facts of a key, and reports whether they are known.
func (c *Computed) Pod(key string) (PodFacts, bool) {
	if c == nil {
		return PodFacts{}, false
	}
	return c.pods.Get(key)
}

// SetPod notes the facts of a key.
func (c *Computed) SetPod(key string, facts PodFacts) {
	if c != nil {
		c.pods.Add(key, facts)
	}
}
