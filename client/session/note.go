// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

// A Note is progress that a front end may show: one of the types of this package that name it. Texts may
// come from inside the sandbox: escape them before they go to a terminal.
type Note interface{ isNote() }

// Notes gets the notes of a call, one after the other, perhaps from another goroutine than the caller's. It
// must not block for long: the call waits for it. A nil Notes drops them.
type Notes func(Note)

func (n Notes) send(note Note) {
	if n != nil {
		n(note)
	}
}
