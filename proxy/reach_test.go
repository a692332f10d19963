// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

const webAddress, otherAddress = "web:80", "web:81"

// network is what baselines a test has away, and how often each was connected to.
type network struct {
	mu      sync.Mutex
	away    map[string]bool
	refused map[string]bool
	dials   map[string]int
}

func (n *network) dial(_ context.Context, address string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[address]++
	if n.refused[address] {
		return &refusedError{errors.New("refused")}
	}
	if n.away[address] {
		return errors.New("away")
	}
	return nil
}

func (n *network) set(away bool, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, address := range addresses {
		n.away[address] = away
	}
}

// refuse has these refused, and no others.
func (n *network) refuse(addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.refused)
	for _, address := range addresses {
		n.refused[address] = true
	}
}

func (n *network) dialled(address string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials[address]
}

// reaching runs a test beside the watch of two baselines, in a bubble.
func reaching(t *testing.T, test func(t *testing.T, r *reach, n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{away: map[string]bool{}, refused: map[string]bool{}, dials: map[string]int{}}
		r := newReach(slog.New(slog.DiscardHandler), n.dial)
		r.begin([]intercept.Port{{Baseline: webAddress}, {Baseline: otherAddress}})
		n.set(true, webAddress, otherAddress)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.watch(ctx)
		synctest.Wait()
		test(t, r, n)
	})
}

// found has both baselines reached.
func found(t *testing.T, r *reach, n *network) {
	t.Helper()
	n.set(false, webAddress, otherAddress)
	time.Sleep(ProbeEvery + time.Millisecond)
	if reason := r.reason(); reason != "" {
		t.Fatalf("both baselines accept connections, and it says %q", reason)
	}
}

func TestEachPortsBaselineIsReachedFirst(t *testing.T) {
	reaching(t, func(t *testing.T, r *reach, n *network) {
		if reason := r.reason(); !strings.Contains(reason, "no connection yet") {
			t.Errorf("before, it says %q", reason)
		}
		n.set(false, webAddress)
		time.Sleep(time.Minute + ProbeEvery/2)
		if reason := r.reason(); !strings.Contains(reason, otherAddress) {
			t.Errorf("with one of two, it says %q", reason)
		}
		if dials := n.dialled(otherAddress); dials != 61 {
			t.Errorf("in a minute %d connections are tried", dials)
		}
		found(t, r, n)
		before := n.dialled(webAddress) + n.dialled(otherAddress)
		time.Sleep(time.Hour)
		if more := n.dialled(webAddress) + n.dialled(otherAddress) - before; more != 0 {
			t.Errorf("once they are reached %d more connections are tried", more)
		}
	})
}

func TestABaselineIsLostAfterTenSecondsWithoutAConnection(t *testing.T) {
	reaching(t, func(t *testing.T, r *reach, n *network) {
		found(t, r, n)
		n.set(true, webAddress, otherAddress)
		time.Sleep(time.Hour)
		if reason := r.reason(); reason != "" {
			t.Errorf("nothing was tried, and it says %q", reason)
		}
		r.note(webAddress, errors.New("away"))
		time.Sleep(LostAfter - time.Millisecond)
		if reason := r.reason(); reason != "" {
			t.Errorf("too early it says %q", reason)
		}
		time.Sleep(time.Millisecond)
		if reason := r.reason(); !strings.Contains(reason, "for 10s") {
			t.Errorf("after %s it says %q", LostAfter, reason)
		}
		found(t, r, n) // without a client
	})
}

// One port that nothing serves any more does not take the others from their clients.
func TestABaselineWithAPortThatAcceptsIsNotLost(t *testing.T) {
	reaching(t, func(t *testing.T, r *reach, n *network) {
		found(t, r, n)
		n.set(true, webAddress)
		for range 60 {
			r.note(webAddress, errors.New("away"))
			time.Sleep(time.Second)
			if reason := r.reason(); reason != "" {
				t.Fatalf("it says %q", reason)
			}
		}
	})
}

// A port that no process listens on is one that its clients found so before. Where no port is listened on there is nobody to
// lead requests to.
func TestAPortThatIsRefusedIsReachedBesideOneThatAccepts(t *testing.T) {
	reaching(t, func(t *testing.T, r *reach, n *network) {
		n.refuse(webAddress, otherAddress)
		time.Sleep(time.Minute)
		if reason := r.reason(); !strings.Contains(reason, "refuses the connections to all its ports") {
			t.Errorf("with two that are refused it says %q", reason)
		}
		n.refuse(webAddress)
		n.set(false, otherAddress)
		time.Sleep(ProbeEvery + time.Millisecond)
		if reason := r.reason(); reason != "" {
			t.Errorf("with one of two it says %q", reason)
		}
		before := n.dialled(webAddress)
		time.Sleep(time.Hour)
		if more := n.dialled(webAddress) - before; more != 0 {
			t.Errorf("once one is reached %d more connections are tried", more)
		}
		for range 60 { // its clients go on to be refused
			r.note(webAddress, errors.New("refused"))
			time.Sleep(time.Second)
			if reason := r.reason(); reason != "" {
				t.Fatalf("it says %q", reason)
			}
		}
		n.refuse(webAddress, otherAddress)
		r.note(webAddress, errors.New("refused"))
		time.Sleep(LostAfter)
		if reason := r.reason(); !strings.Contains(reason, "for 10s") {
			t.Errorf("with two that are refused again it says %q", reason)
		}
	})
}

// What a probe says of a port on which no process listens.
func TestAConnectionThatAPeerRefuses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel tells it on Linux only")
	}
	var refused *refusedError
	if err := probe(t.Context(), closedAddress(t)); !errors.As(err, &refused) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("it says %v", err)
	}
	l := listenLocal(t)
	defer l.Close()
	if err := probe(t.Context(), l.Addr().String()); err != nil {
		t.Errorf("of one on which one listens it says %v", err)
	}
}

// A copy that is away, or a tenant that has many, says nothing about the baseline.
func TestCopiesSayNothingAboutTheBaseline(t *testing.T) {
	reaching(t, func(t *testing.T, r *reach, n *network) {
		r.note("copy:80", nil)
		if r.reason() == "" {
			t.Error("a copy is taken for the baseline")
		}
		found(t, r, n)
		r.note("copy:80", errors.New("away"))
		time.Sleep(time.Minute)
		if reason := r.reason(); reason != "" {
			t.Errorf("it says %q", reason)
		}
	})
}

// The whole way: real connections, and /readyz.
func TestAProxyIsReadyOnceItReachesTheBaseline(t *testing.T) {
	t.Parallel()
	baseline := closedAddress(t) // and refused, at its one port
	w := newWorld(t, intercept.HTTP, baseline, "", func(o *Options) { o.probe = nil })
	readyz := func() (int, string) {
		answer := httptest.NewRecorder()
		w.proxy.admin().Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return answer.Code, answer.Body.String()
	}
	if code, says := readyz(); code != http.StatusServiceUnavailable || !strings.Contains(says, "the baseline") {
		t.Errorf("without a baseline /readyz is answered %d %q", code, says)
	}
	l, err := net.Listen("tcp", baseline)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	eventually(t, "the baseline is reached", func() bool { code, _ := readyz(); return code == http.StatusOK })
}

// The connections of clients count, and those that a client gave up do not.
func TestConnectionsOfClientsTellWhetherTheBaselineIsThere(t *testing.T) {
	gone := closedAddress(t)
	w := newWorld(t, intercept.HTTP, gone, "")
	failing := func() bool {
		w.proxy.reach.mu.Lock()
		defer w.proxy.reach.mu.Unlock()
		return !w.proxy.reach.failing.IsZero()
	}
	given, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := w.proxy.dial(given, gone); err == nil || failing() {
		t.Errorf("what a client gave up counts: %t, %v", failing(), err)
	}
	if _, err := w.proxy.dial(t.Context(), gone); err == nil || !failing() {
		t.Errorf("a connection that failed counts: %t, %v", failing(), err)
	}
}
