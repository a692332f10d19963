// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestAMemberIsMadeOnceTheClaimsAreServed(t *testing.T) {
	for name, test := range map[string]struct {
		// claims are how long each of some claims takes that begin at once.
		claims []time.Duration
		ends   time.Duration // of the context, 0 for never
		waits  time.Duration
	}{
		"no claim":                  {},
		"one claim":                 {claims: []time.Duration{30 * time.Millisecond}, waits: 30 * time.Millisecond},
		"the longest of two claims": {claims: []time.Duration{30 * time.Millisecond, 70 * time.Millisecond}, waits: 70 * time.Millisecond},
		"a claim that hangs":        {claims: []time.Duration{time.Hour}, waits: refillWaits},
		"the process ends":          {claims: []time.Duration{time.Hour}, ends: 10 * time.Millisecond, waits: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := newClaimsFirst()
				for _, took := range test.claims {
					done := first.serve()
					go func() {
						time.Sleep(took) // of the bubble's clock
						done()
						done() // twice is once
					}()
				}
				ctx := t.Context()
				if test.ends > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.ends)
					defer cancel()
				}
				began := time.Now()
				first.wait(ctx)
				if waited := time.Since(began); waited != test.waits {
					t.Errorf("it waited %v, want %v", waited, test.waits)
				}
				time.Sleep(2 * time.Hour)
				began = time.Now()
				first.wait(t.Context())
				if waited := time.Since(began); waited > 0 {
					t.Errorf("once all are served it waits %v", waited)
				}
			})
		})
	}
}
