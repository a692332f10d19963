// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// openMetrics reads the metrics as Prometheus does.
func (w *world) openMetrics() string {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, w.metrics+"/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	res, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/openmetrics-text") {
		w.t.Errorf("the metrics are %q", got)
	}
	return string(body)
}

// wantSeries waits for lines of the metrics: a request is counted when it has ended, which its
// caller may know first.
func (w *world) wantSeries(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		eventually(w.t, "metrics have "+line, func() bool { return strings.Contains(w.openMetrics(), "\n"+line+"\n") })
	}
}

func TestMetricsTellWhatBecameOfRequests(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/nosuchcode" {
			w.WriteHeader(299)
		}
		_, _ = io.WriteString(w, "answer to "+string(body))
	}), func(s *setup) { s.opts.Version = "v1.2.3" })
	w.kcp.grant("viewer", "get sandboxrunners", "get sandboxrunners/log")
	w.do("POST", demo+"sync", adminToken, strings.NewReader("12345"))
	w.do("GET", demo+"proxy/nosuchcode", adminToken, nil)
	w.do("GET", demo+"log", "viewer", nil)
	w.do("GET", demo+"status", adminToken, nil)
	w.do("POST", demo+"sync", "viewer", nil)
	w.do("GET", demo+"nosuch", adminToken, nil)
	w.do("GET", "/nosuch", adminToken, nil)
	w.do("GET", "/dataplane/clusters/root:acme:dev/templates", "viewer", nil)
	w.wantSeries(
		`sandbar_dataplane_requests_total{code="200",resource="sandboxrunners",verb="sync"} 1.0`,
		`sandbar_dataplane_requests_total{code="403",resource="sandboxrunners",verb="sync"} 1.0`,
		`sandbar_dataplane_requests_total{code="other",resource="sandboxrunners",verb="proxy"} 1.0`,
		`sandbar_dataplane_requests_total{code="200",resource="sandboxrunners",verb="log"} 1.0`,
		`sandbar_dataplane_requests_total{code="404",resource="sandboxrunners",verb="other"} 1.0`,
		`sandbar_dataplane_requests_total{code="400",resource="other",verb="other"} 1.0`,
		`sandbar_dataplane_requests_total{code="200",resource="templates",verb="catalogue"} 1.0`,
		`sandbar_dataplane_request_duration_seconds_count{verb="sync"} 2`,
		`sandbar_dataplane_stream_duration_seconds_count{verb="log"} 1`,
		`sandbar_dataplane_upstream_duration_seconds_count{verb="sync"} 1`,
		`sandbar_dataplane_upstream_duration_seconds_count{verb="log"} 1`,
		`sandbar_dataplane_bytes_total{direction="in"} 5.0`,
		`sandbar_dataplane_refusals_total{reason="denied"} 1.0`,
		`sandbar_dataplane_refusals_total{reason="no_verb"} 1.0`,
		`sandbar_dataplane_refusals_total{reason="malformed"} 1.0`,
		`sandbar_dataplane_in_flight{type="request",verb="sync"} 0.0`,
		`sandbar_dataplane_authorization_duration_seconds_count{result="refused"} 1`,
		`sandbar_dataplane_kcp_calls_total{call="review",outcome="denied"} 1.0`,
	)
	text := w.openMetrics()
	if strings.Contains(text, "sandbar_dataplane_upstream_duration_seconds_count{verb=\"status\"}") {
		t.Error("a verb that asks no pod has a duration of one")
	}
	if !strings.Contains(text, `sandbar_dataplane_build_info{goversion="go`) || !strings.Contains(text, `version="v1.2.3"} 1.0`) {
		t.Error("the version is not among the metrics")
	}
	for _, secret := range []string{"root:acme", "cluster1", "demo", string(demoID.UID), demoID.Namespace()} {
		if strings.Contains(text, `"`+secret) {
			t.Errorf("%q is in a label", secret)
		}
	}
}

func TestMetricsTellCutsFromRefusals(t *testing.T) {
	w := newWorld(t, switcher("", func(_ net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }), func(s *setup) {
		s.opts.Limits.StreamIdle = 20 * time.Millisecond
	})
	in := switched(t, w.dial(), demo+"proxy", "")
	_, _ = io.Copy(io.Discard, in)
	w.wantSeries(
		`sandbar_dataplane_cuts_total{reason="stream_idle",verb="proxy"} 1.0`,
		`sandbar_dataplane_requests_total{code="101",resource="sandboxrunners",verb="proxy"} 1.0`,
		`sandbar_dataplane_in_flight{type="stream",verb="proxy"} 0.0`,
	)
	for line := range strings.Lines(w.openMetrics()) {
		if strings.HasPrefix(line, "sandbar_dataplane_refusals_total{") && !strings.HasSuffix(line, " 0.0\n") {
			t.Errorf("a cut is counted as a refusal: %s", line)
		}
	}
}
