// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/pause"
)

func TestAPauseLastsUntilItsTimeOrTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := pause.For(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("it lasted %v and ended with %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := pause.For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("it lasted %v and ended with %v", time.Since(began), err)
		}
	})
}
