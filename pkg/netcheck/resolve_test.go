// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatAResolverFindsOut(t *testing.T) {
	timeout, missing := &net.DNSError{Err: "i/o timeout", IsTimeout: true}, &net.DNSError{Err: "no such host", IsNotFound: true}
	from := func(d time.Duration, then bool) func(time.Duration) bool {
		return func(since time.Duration) bool { return (since >= d) == then }
	}
	for name, tc := range map[string]struct {
		reaches func(time.Duration) bool // what the policy forbids; nil for none
		fails   error                    // of a lookup, while it does not succeed
		answers func(time.Duration) bool
		want    int
		finding string
	}{
		"DNS that the policy allows":                          {from(time.Hour, true), timeout, from(0, true), Resolved, ""},
		"DNS that it does not allow":                          {from(time.Hour, true), timeout, from(time.Hour, true), Unresolved, "192.0.2.1, 192.0.2.2: no answer"},
		"a name that there is not":                            {from(time.Hour, true), missing, from(time.Hour, true), Unresolved, "192.0.2.1, 192.0.2.2: there is no such name"},
		"an answer from before the policy holds says nothing": {from(0, true), nil, from(0, true), Unconfined, ""},
		"a policy that comes late":                            {from(15*time.Second, false), timeout, from(15*time.Second, false), Unresolved, "192.0.2.1, 192.0.2.2: no answer"},
		"a network that comes late":                           {from(time.Hour, true), timeout, from(14*time.Second, true), Resolved, ""},
		"a policy that goes away meanwhile says nothing":      {from(5*time.Second, true), timeout, from(5*time.Second, true), Unconfined, ""},
		"without a policy":                                    {nil, timeout, from(0, true), Resolved, ""},
		"DNS that answers nobody":                             {nil, timeout, from(time.Hour, true), Unresolved, "192.0.2.1, 192.0.2.2: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, blocked := time.Now(), None
				if tc.reaches != nil {
					blocked = "blocked"
				}
				r := Resolver{
					dial: func(context.Context, string) bool { return tc.reaches(time.Since(start)) },
					lookup: func(ctx context.Context, name string) error {
						if name != Name {
							t.Errorf("%s is looked up", name)
						}
						if tc.answers(time.Since(start)) {
							return nil
						}
						if errors.Is(tc.fails, timeout) {
							<-ctx.Done()
						}
						return tc.fails
					},
					servers: func() []string { return []string{"192.0.2.1", "192.0.2.2"} },
				}
				code, finding := r.Resolve(t.Context(), blocked, Name)
				if code != tc.want || finding != tc.finding {
					t.Errorf("got %d, %q, want %d, %q", code, finding, tc.want, tc.finding)
				}
				if took := time.Since(start); took > time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestHowALookupFailsIsSaidInTheSameWordsEachTime(t *testing.T) {
	// A resolver that asks a port at which nobody listens.
	refused := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:1")
	}}
	_, err := refused.LookupHost(t.Context(), "a.test.")
	if got := describe(err); got != "connection refused" {
		t.Errorf("of %v it says %q", err, got)
	}
	for want, err := range map[string]error{
		"the server fails": &net.DNSError{Err: "server misbehaving", IsTemporary: true}, "no answer": errors.New("anything"),
	} {
		if got := describe(err); got != want {
			t.Errorf("of %v it says %q", err, got)
		}
	}
}

func TestTheServersOfAResolver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	const text = "search a.svc.cluster.local\n# nameserver 192.0.2.9\nnameserver 169.254.20.10\n nameserver\tfd00::a # x\noptions ndots:5\nnameserver\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readServers(path); !slices.Equal(got, []string{"169.254.20.10", "fd00::a"}) {
		t.Errorf("they are %q", got)
	}
	if got := readServers(filepath.Join(t.TempDir(), "none")); !slices.Equal(got, []string{"no server"}) {
		t.Errorf("without a file they are %q", got)
	}
}
