// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// world is what all tests share: one stack and one provider on it. A test that breaks
// something (kills the provider, restarts kcp) leaves it whole again.
var world *local.Provider

// recorded keeps every status of the run; each is checked at its end. created counts the instances.
var (
	recorded *recorder
	created  atomic.Int32
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	name := os.Getenv("SANDBAR_STACK")
	if name == "" {
		fmt.Fprintln(os.Stderr, "e2e: SANDBAR_STACK is not set; run make test-e2e")
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	stack, err := local.Find(ctx, name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 2
	}
	// Everything that the libraries can say is logged, so that the search for tokens in the
	// logs (TestNoTokenAnywhere) searches the most that there can be.
	world, err = stack.StartProvider(ctx, local.ProviderOptions{Verbosity: 7, DrainDelay: 50 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 2
	}
	defer world.Stop()
	recorded = startRecorder()
	code := runSides(m)
	left()
	wrong, statuses, instances := recorded.check()
	fmt.Fprintf(os.Stderr, "e2e: recorded %d statuses of %d instances, %d impossible\n", statuses, instances, len(wrong))
	if created.Load() > 0 && statuses == 0 {
		wrong = append(wrong, "no status was recorded of the instances that were made: the recorder is broken")
	}
	for _, line := range append(wrong, wrongInLogs()...) {
		fmt.Fprintln(os.Stderr, "e2e: impossible:", line)
		code = max(code, 1)
	}
	return code
}
