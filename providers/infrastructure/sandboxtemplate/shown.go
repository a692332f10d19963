// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxtemplate

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
)

const (
	// maxRead bounds the SandboxTemplates that are remembered; beyond it the least used are read again.
	maxRead = 4096
	// readFor is for how long one is taken to be as it was read. The watch tells of a change earlier; but kcp's informers
	// can miss a deletion (kcp#4364), and then nothing else would.
	readFor = time.Minute
)

// remembered are SandboxTemplates as they were read in their own workspaces. A claim that starts warm needs one, and a
// SandboxTemplate does not change: what was read holds for as long as the watch shows the object that was read. The watch
// itself cannot be used in its place: it holds metadata alone, since it reads all workspaces through one schema (ADR 2).
//
// What the watch shows is a moment old. A Sandbox that is created at the same moment in which another SandboxTemplate takes
// the name of its own may be made of either.
type remembered struct {
	known *lru.Cache[export.Key, reading]
	now   func() time.Time
}

// reading is a SandboxTemplate as it was read.
type reading struct {
	template *sandbarv1alpha1.SandboxTemplate
	at       time.Time
}

func newRemembered() *remembered {
	known, _ := lru.New[export.Key, reading](maxRead) // fails only for a size below one
	return &remembered{known: known, now: time.Now}
}

// find returns a copy of the SandboxTemplate that the watch shows; nil if it was not read, or is not the same any more.
func (r *remembered) find(key export.Key, shown metav1.Object) *sandbarv1alpha1.SandboxTemplate {
	known, ok := r.known.Get(key)
	if !ok || shown.GetDeletionTimestamp() != nil || r.now().Sub(known.at) > readFor || versionOf(known.template) != versionOf(shown) {
		return nil
	}
	return known.template.DeepCopy()
}

// add notes a SandboxTemplate that was read; begun is when that began.
func (r *remembered) add(key export.Key, template *sandbarv1alpha1.SandboxTemplate, begun time.Time) {
	r.known.Add(key, reading{template: template.DeepCopy(), at: begun})
}

// version is what tells two states of an object apart of which one was made of other words.
type version struct {
	uid        types.UID
	generation int64
}

func versionOf(obj metav1.Object) version { return version{obj.GetUID(), obj.GetGeneration()} }
