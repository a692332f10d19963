// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
)

// clockWarning is the difference between two clocks that is worth a word. A Date header has whole seconds, and an answer
// takes its time.
const clockWarning = 5 * time.Second

// checkClocks compares this machine's clock with those of both servers.
func (e *examination) checkClocks(ctx context.Context) []Finding {
	var found []Finding
	for _, side := range []struct {
		name string
		cfg  *rest.Config
	}{{"kcp", e.KCP}, {"the runtime cluster", e.Runtime}} {
		ahead, err := aheadOf(ctx, side.cfg)
		if err != nil {
			found = append(found, warning("", "the clock of %s cannot be read: %v", side.name, err))
			continue
		}
		found = append(found, judgeClock(side.name, ahead))
	}
	return found
}

// judgeClock says what a difference means; ahead is by how much this machine is later.
func judgeClock(server string, ahead time.Duration) Finding {
	const remedy = "look at the time synchronisation of this machine and of the server"
	switch difference := ahead.Abs(); {
	case difference > inuse.ClockTolerance:
		return failure(remedy, "this machine's clock and that of %s differ by %s: with more than %s between the controllers and a server, nothing is put to sleep or deleted for being unused, and tokens are refused",
			server, difference.Round(time.Second), inuse.ClockTolerance)
	case difference > clockWarning:
		return warning(remedy, "this machine's clock and that of %s differ by %s", server, difference.Round(time.Second))
	}
	return passed("this machine's clock and that of %s agree", server)
}

// aheadOf is by how much this machine's clock is later than a server's.
func aheadOf(ctx context.Context, cfg *rest.Config) (time.Duration, error) {
	caller, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return 0, fmt.Errorf("connecting: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/version", nil)
	if err != nil {
		return 0, fmt.Errorf("asking for its version: %w", err)
	}
	began := time.Now()
	res, err := caller.Do(req)
	if err != nil {
		return 0, fmt.Errorf("asking for its version: %w", err)
	}
	res.Body.Close()
	date, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return 0, errors.New("its answer has no date")
	}
	middle := began.Add(time.Since(began) / 2)
	return middle.Sub(date.Add(time.Second / 2)), nil
}
