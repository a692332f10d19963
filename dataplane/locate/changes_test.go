// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A pod has a changed Secret when its kubelet brings it, which no informer sees.
func TestWhatLagsIsTriedOnceMoreWhenPatienceEnds(t *testing.T) {
	const patience = 3 * time.Second
	for name, c := range map[string]struct {
		mended time.Duration
		err    bool
		tries  int
	}{
		"mended without a change that is seen": {time.Second, false, 3},
		"mended at once":                       {0, false, 1},
		"mended too late":                      {time.Minute, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, tries, lagging := time.Now(), 0, errors.New("lagging")
				got, err := Again(t.Context(), NewChanges(), "a", patience, func(err error) bool { return errors.Is(err, lagging) }, func() (int, error) {
					if tries++; time.Since(began) < c.mended {
						return 0, lagging
					}
					return 7, nil
				})
				if (err != nil) != c.err || !c.err && got != 7 || tries != c.tries {
					t.Errorf("got %d, %v after %d tries in %v", got, err, tries, time.Since(began))
				}
				if took := time.Since(began); took > patience {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
