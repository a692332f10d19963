// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// reach is whether the baseline can be reached from here. A proxy that is alone with its ports, as by a NetworkPolicy that
// names the Service's pods and not the proxies, must not get the Service's requests.
//
// Each port's baseline has to accept one connection first, or to refuse one while another port's accepts: that is a port that
// no process listens on, which its clients find as they did before. After that the connections of clients say it: if one
// fails, and none to any port succeeds for LostAfter, the baseline is lost until one does. A proxy that is not ready has no
// clients, so that meanwhile it connects by itself, each ProbeEvery.
type reach struct {
	log *slog.Logger
	// dial makes a connection to a baseline and ends it.
	dial func(ctx context.Context, address string) error

	mu sync.Mutex
	// reached says for each baseline, by its address, whether it has answered a connection, and accepted whether one has
	// accepted it.
	reached  map[string]bool
	accepted bool
	// failing is since when each connection has failed, to what was reached once; zero if the last one has not.
	failing time.Time
	// last is why a connection failed last.
	last error
	// failed has an element once a connection has failed.
	failed chan struct{}
}

func newReach(log *slog.Logger, dial func(ctx context.Context, address string) error) *reach {
	return &reach{log: log, dial: dial, reached: map[string]bool{}, failed: make(chan struct{}, 1)}
}

// begin sets whose baselines are to be reached.
func (r *reach) begin(ports []intercept.Port) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range ports {
		r.reached[of.Baseline] = false
	}
}

// note takes notice of a connection that was made, or has failed with err. One to a copy says nothing.
func (r *reach) note(address string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, isBaseline := r.reached[address]; !isBaseline {
		return
	}
	if err == nil {
		r.reached[address], r.accepted, r.failing = true, true, time.Time{}
		return
	}
	r.last = err
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		r.reached[address] = true // a client's has to fail before the baseline may be lost
		return
	}
	if !r.reached[address] || !r.failing.IsZero() {
		return
	}
	r.failing = time.Now()
	select {
	case r.failed <- struct{}{}:
	default:
	}
}

// reason says why the baseline counts as one that cannot be reached; empty if it can.
func (r *reach) reason() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(r.reached)) {
		if !r.reached[address] {
			return fmt.Sprintf("the baseline %s has accepted no connection yet", address)
		}
	}
	if len(r.reached) > 0 && !r.accepted {
		return "the baseline refuses the connections to all its ports"
	}
	if !r.failing.IsZero() && time.Since(r.failing) >= LostAfter {
		return fmt.Sprintf("the baseline has accepted no connection for %s", LostAfter)
	}
	return ""
}

// watch connects to baselines, as long as that is needed to know, until ctx ends.
func (r *reach) watch(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for said := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if doubtful := r.doubtful(); len(doubtful) > 0 {
			r.probe(ctx, doubtful)
			said = r.say(said)
		} else {
			select {
			case <-ctx.Done():
				return
			case <-r.failed:
			}
		}
		pause.Reset(ProbeEvery)
	}
}

// say logs why the baseline cannot be reached, or that it can, if that is not what was said last.
func (r *reach) say(said string) string {
	reason := r.reason()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reason {
	case said:
	case "":
		r.log.Info("the baseline accepts connections")
	default:
		r.log.Warn("not ready", "reason", reason, "error", r.last)
	}
	return reason
}

// doubtful returns the baselines to connect to: all while connections fail or none was accepted, else those that were never
// reached.
func (r *reach) doubtful() (addresses []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address, reached := range r.reached {
		if !reached || !r.accepted || !r.failing.IsZero() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func (r *reach) probe(ctx context.Context, addresses []string) {
	var probing sync.WaitGroup
	for _, address := range addresses {
		probing.Go(func() {
			if err := r.dial(ctx, address); err == nil || ctx.Err() == nil {
				r.note(address, err)
			}
		})
	}
	probing.Wait()
}
