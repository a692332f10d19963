// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import "sync"

// Wakes connect those who find out that an object has to be looked at with the controller of its kind. A controller that
// needs them in turn is made later, and adds itself then; before that a wake is dropped, since a controller looks at all
// objects when it starts. The zero value has no controller. Wakes are safe for concurrent use.
type Wakes struct {
	mu          sync.RWMutex
	controllers map[string]func(key Key, mayWait bool)
}

// Add has the wakes of a kind reach its controller (Controller.Wake).
func (w *Wakes) Add(kind string, wake func(key Key, mayWait bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.controllers == nil {
		w.controllers = map[string]func(Key, bool){}
	}
	w.controllers[kind] = wake
}

// For returns a function that has an object of a kind looked at. mayWait is as for Controller.Wake.
func (w *Wakes) For(kind string, mayWait bool) func(Key) {
	return func(key Key) {
		w.mu.RLock()
		wake := w.controllers[kind]
		w.mu.RUnlock()
		if wake != nil {
			wake(key, mayWait)
		}
	}
}
