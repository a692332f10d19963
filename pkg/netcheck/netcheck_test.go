// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"net"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatADialerFindsOut(t *testing.T) {
	began := func() time.Time { return time.Now() }
	after := func(d time.Duration, was, is bool) func(time.Duration) bool {
		return func(since time.Duration) bool {
			if since < d {
				return was
			}
			return is
		}
	}
	always := func(reached bool) func(time.Duration) bool { return after(0, reached, reached) }
	for name, tc := range map[string]struct {
		open    func(time.Duration) bool // nil for none
		blocked func(time.Duration) bool
		want    int
	}{
		"a policy that holds":                               {always(true), always(false), Blocked},
		"a policy that nobody enforces":                     {always(true), always(true), Reached},
		"a policy that comes late":                          {always(true), after(15*time.Second, true, false), Blocked},
		"a pod whose network comes late":                    {after(10*time.Second, false, true), always(false), Blocked},
		"no network proves nothing":                         {always(false), always(false), NoNetwork},
		"a network that goes away meanwhile proves nothing": {after(time.Second, true, false), always(false), NoNetwork},
		"one failure is an accident":                        {always(true), func(d time.Duration) bool { return d%(2*time.Second) != 0 }, Reached},
		"without another address":                           {nil, always(false), Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, open := began(), None
				if tc.open != nil {
					open = "open"
				}
				d := Dialer{dial: func(_ context.Context, address string) bool {
					if address == "open" {
						return tc.open(time.Since(start))
					}
					return tc.blocked(time.Since(start))
				}}
				if got := d.Dial(t.Context(), open, "blocked"); got != tc.want {
					t.Errorf("got %d, want %d", got, tc.want)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestTheNetworkIsDialled(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if !dial(t.Context(), address) {
		t.Error("a listener cannot be reached")
	}
	_ = listener.Close()
	if dial(t.Context(), address) {
		t.Error("nobody listens, and it is reached")
	}
}

func TestAListenerTakesConnectionsUntilItIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Listen(ctx) }()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(Port))
	for deadline := time.Now().Add(10 * time.Second); !dial(t.Context(), address); {
		select {
		case err := <-done:
			t.Skipf("port %d is taken here: %v", Port, err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("it cannot be reached")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
