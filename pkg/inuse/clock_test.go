// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/inuse/clocktest"
)

// clockAt is a clock whose wall time a test sets.
func clockAt(now *time.Time) *Clock { return &Clock{Local: func() time.Time { return *now }} }

func TestWhoRecordsTakesTheLaterClockAndWhoJudgesTheEarlier(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		runtime, kcp   time.Duration // from noon, this machine's time
		later, earlier time.Duration
	}{
		"all agree":                           {0, 0, 0, 0},
		"to within noise":                     {-2 * time.Second, 2 * time.Second, 0, 0},
		"this machine is behind":              {day, day, day, 0},
		"this machine is ahead":               {-day, -day, 0, -day},
		"the runtime's API server is behind":  {-day, 0, 0, -day},
		"the runtime's API server is ahead":   {day, 0, day, 0},
		"kcp is ahead, which records nothing": {0, day, 0, 0},
		"kcp is behind":                       {0, -day, 0, -day},
		"both servers are behind, kcp more":   {-time.Hour, -day, 0, -day},
	} {
		t.Run(name, func(t *testing.T) {
			now := noon
			clock := clockAt(&now)
			clock.Heard(Runtime, noon.Add(c.runtime))
			clock.Heard(KCP, noon.Add(c.kcp))
			if got := clock.Later().Sub(noon); got != c.later {
				t.Errorf("later: %v, want %v", got, c.later)
			}
			if got := clock.Earlier().Sub(noon); got != c.earlier {
				t.Errorf("earlier: %v, want %v", got, c.earlier)
			}
			if got, ok := clock.Ahead(Runtime); !ok || got != -c.runtime {
				t.Errorf("ahead by %v, %v", got, ok)
			}
		})
	}
	for _, clock := range []*Clock{nil, {}} {
		if _, ok := clock.Ahead(Runtime); ok || time.Since(clock.Later()).Abs() > time.Minute || time.Since(clock.Earlier()).Abs() > time.Minute {
			t.Error("a clock that has heard of nobody does not have this machine's time")
		}
	}
}

// A reading is carried forward by the monotonic clock: a wall clock that is set after it shows.
func TestAClockThatIsSetShowsAtOnce(t *testing.T) {
	start := time.Now()
	now := start
	clock := clockAt(&now)
	clock.Heard(Runtime, start)
	now = start.Add(10 * time.Second)
	if got, _ := clock.Ahead(Runtime); got != 0 {
		t.Errorf("after ten seconds it is ahead by %v", got)
	}
	for _, set := range []time.Duration{-time.Hour, time.Hour} {
		now = clocktest.SetWall(start.Add(20*time.Second), set)
		if got, _ := clock.Ahead(Runtime); got != set {
			t.Errorf("set by %v: ahead by %v", set, got)
		}
		if clock.Later().Before(start.Add(20*time.Second).Round(0)) || clock.Earlier().After(start.Add(20*time.Second).Round(0)) {
			t.Errorf("set by %v: later is %v, earlier %v", set, clock.Later(), clock.Earlier())
		}
	}
}

func TestDatesOfAnswersAreHeardBelowThePathOnly(t *testing.T) {
	const pods = "/api/v1/namespaces/x/services/y/proxy/"
	date := time.Now().Add(-time.Hour).Truncate(time.Second)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case pods:
			w.Header().Set("Date", time.Now().Add(99*time.Hour).UTC().Format(http.TimeFormat)) // a tenant's word
		case "/apis/coordination.k8s.io/broken":
			w.Header().Set("Date", "yesterday")
		default:
			w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		}
	}))
	defer server.Close()
	clock := &Clock{}
	client, err := rest.HTTPClientFor(clock.Watch(Runtime, &rest.Config{Host: server.URL}, "/apis/coordination.k8s.io/"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	ask(pods)
	ask("/apis/coordination.k8s.io/broken")
	if _, ok := clock.Ahead(Runtime); ok {
		t.Fatal("a date is heard that is no API server's")
	}
	ask("/apis/coordination.k8s.io/v1/namespaces/x/leases/y")
	if got, ok := clock.Ahead(Runtime); !ok || (got-time.Hour).Abs() > time.Minute {
		t.Errorf("ahead by %v, %v; want an hour", got, ok)
	}
}
