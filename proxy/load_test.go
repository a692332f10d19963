// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// load are clients that send one request after the other, half of them with the own ID.
type load struct {
	stop    atomic.Bool
	clients sync.WaitGroup

	mu       sync.Mutex
	answered map[string]int
	failed   []string
}

func (w *world) load(http2 bool, clients int) *load {
	l := &load{answered: map[string]int{}}
	for i := range clients {
		client := w.client(http2)
		l.clients.Go(func() {
			for n := i; !l.stop.Load(); n++ {
				var baggage []string
				if n%2 == 0 {
					baggage = []string{ownBaggage}
				}
				l.one(client, w.request("GET", "/", nil, baggage...))
			}
		})
	}
	return l
}

func (l *load) one(client *http.Client, req *http.Request) {
	res, err := client.Do(req)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = append(l.failed, err.Error())
	case res.StatusCode != http.StatusOK:
		l.failed = append(l.failed, res.Status+" "+string(body))
	default:
		l.answered[string(body)]++
	}
}

// end stops the clients; no request may have failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop.Store(true)
	l.clients.Wait()
	if len(l.failed) > 0 {
		t.Errorf("%d requests failed, beside %v; the first: %s", len(l.failed), l.answered, l.failed[0])
	}
}

// more waits until so many more requests have ended.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.answered[baselineAnswered] + l.answered[copyAnswered] + len(l.failed)
	}
	before := count()
	eventually(t, "more requests have ended", func() bool { return count() >= before+n })
}
