// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package wake

import "time"

// SetPatienceForTest says for how long an app may accept no connection.
func (w *Wakes) SetPatienceForTest(d time.Duration) { w.patience = d }

// HeldForTest counts the requests that wait, those of one placement and all.
func (w *Wakes) HeldForTest(namespace string) (here, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.all[namespace]; k != nil {
		here = k.held
	}
	return here, w.held
}
