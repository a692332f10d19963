// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sandbar-dev/sandbar/runner/ringlog"
)

// portTeller tells, in the app's log, of an app that listens where no preview reaches it: on another port
// than the sandbox's, or on loopback alone, as many development servers do by default. Its author sees
// nothing but a preview that does not come.
type portTeller struct {
	port int
	// listening returns where the app listens.
	listening func() ([]netip.AddrPort, error)
	// tell writes a line to the log of an attempt.
	tell func(attempt uint32, line string)
	// after is how long an attempt has to find its port before it is told, every how often it is looked
	// at then, and until when: an app that listens nowhere after that may be one that never will.
	after, every, until time.Duration
}

const (
	listensAfter = 10 * time.Second
	listensEvery = 2 * time.Second
	listensUntil = time.Minute
)

func newPortTeller(port int, listening func() ([]netip.AddrPort, error), ring *ringlog.Ring) portTeller {
	return portTeller{
		port: port, listening: listening, after: listensAfter, every: listensEvery, until: listensUntil,
		tell: func(attempt uint32, line string) {
			ring.Append(ringlog.Source{Stream: ringlog.Stderr, Attempt: attempt}, time.Now(), []byte(line+"\n"))
		},
	}
}

// beside returns drain with a watch beside it, for as long as the app's standard error is open: for the
// attempt, that is.
func (p portTeller) beside(ctx context.Context, drain func(*os.File, int, uint32)) func(*os.File, int, uint32) {
	return func(pipe *os.File, fd int, attempt uint32) {
		if fd != 2 {
			drain(pipe, fd, attempt)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { p.watch(ctx, attempt) })
		drain(pipe, fd, attempt)
		cancel()
		watching.Wait()
	}
}

// watch looks at one attempt until ctx, which ends with the attempt, or until there is nothing to tell any
// more. It tells once. The kernel announces no listening socket, so it looks again and again.
func (p portTeller) watch(ctx context.Context, attempt uint32) {
	ctx, cancel := context.WithTimeout(ctx, p.until)
	defer cancel()
	next := time.NewTimer(p.after)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		if reachable, _ := probe(ctx, p.port); reachable {
			return
		}
		found, err := p.listening()
		if err != nil {
			return // without the kernel's tables there is nothing to tell
		}
		if len(found) > 0 {
			p.tell(attempt, p.line(found))
			return
		}
		next.Reset(p.every)
	}
}

// listensMost bounds how many addresses are told.
const listensMost = 5

// line says where the app listens and where it should.
func (p portTeller) line(found []netip.AddrPort) string {
	var addresses []string
	elsewhere := true
	for i, address := range found {
		elsewhere = elsewhere && int(address.Port()) != p.port
		if i < listensMost {
			addresses = append(addresses, address.String())
		}
	}
	if more := len(found) - listensMost; more > 0 {
		addresses = append(addresses, fmt.Sprintf("%d more", more))
	}
	where := strings.Join(addresses, ", ")
	if elsewhere {
		return fmt.Sprintf("sandbar: the app listens at %s so far, and previews lead to port %d: have it listen there ($PORT), on all addresses (0.0.0.0 or ::)", where, p.port)
	}
	return fmt.Sprintf("sandbar: the app listens at %s, and no preview reaches the loopback address: have it listen at port %d on all addresses (0.0.0.0 or ::)", where, p.port)
}
