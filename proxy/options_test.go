// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

func TestOptionsAreRefusedByTheirFlags(t *testing.T) {
	for flag, value := range map[string]string{
		"service": "Shop", "namespace": "a_b", "admin": "15080", "drain": "-1s",
		"max-connections": "-1", "max-copy-requests": "-1", "max-copies-requests": "-1",
	} {
		var opts Options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		opts.AddFlags(flags)
		if err := flags.Parse([]string{"--service=shop", "--namespace=demo"}); err != nil {
			t.Fatal(err)
		}
		if err := opts.Validate(); err != nil {
			t.Fatalf("the defaults are refused: %v", err)
		}
		if err := flags.Set(flag, value); err != nil {
			t.Fatal(err)
		}
		if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), "--"+flag) {
			t.Errorf("--%s=%s: %v", flag, value, err)
		}
	}
}

func TestTheAccessLogHasALineForEachRequest(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	gone := closedAddress(t)
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), gone, func(o *Options) { o.AccessLog, o.Access = true, &lines })
	w.ask(w.client(false), w.request("GET", "/a%2Fb?token=secret", nil))
	w.ask(w.client(true), w.request("POST", "/c", strings.NewReader("x"), ownBaggage))
	w.stop()
	<-w.ended // the second line is written once its answer is
	w.ended <- nil
	if strings.Contains(lines.String(), "secret") || strings.Contains(lines.String(), ownID) {
		t.Errorf("the log has a query or an ID: %s", &lines)
	}
	var got []accessLine
	for decoder := json.NewDecoder(&lines); decoder.More(); {
		var line accessLine
		if err := decoder.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Seconds <= 0 || time.Since(line.Time) > time.Minute {
			t.Errorf("the time is %v and %v", line.Time, line.Seconds)
		}
		line.Time, line.Seconds = time.Time{}, 0
		got = append(got, line)
	}
	want := []accessLine{
		{Port: "http", Client: "127.0.0.1", Protocol: "HTTP/1.1", Method: "GET", Host: w.address, Path: "/a%2Fb", To: toBaseline, Address: w.config.Ports[0].Baseline, Code: 200, Bytes: 8},
		{Port: "http", Client: "127.0.0.1", Protocol: "HTTP/2.0", Method: "POST", Host: w.address, Path: "/c", To: toCopy, Address: gone, Code: 502, Cause: causeConnect},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("logged is %+v, want %+v", got, want)
	}
}

func TestAProxyIsReadyOnceItsPortsAreBound(t *testing.T) {
	p, err := New(Options{Service: service, Namespace: "demo"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.endPassing()
	readyz := func() int {
		answer := httptest.NewRecorder()
		p.admin().Handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		return answer.Code
	}
	if code := readyz(); code != http.StatusServiceUnavailable {
		t.Errorf("before a document /readyz is answered %d", code)
	}
	p.state.apply([]byte(`{"service":"shop"}`)) // not valid
	if code := readyz(); code != http.StatusServiceUnavailable || valueOf(p.metrics.configErrors) != 1 {
		t.Errorf("after one that is not valid /readyz is answered %d", code)
	}
	p.bound.Store(true)
	if code := readyz(); code != http.StatusOK {
		t.Errorf("/readyz is answered %d", code)
	}
	p.closed.Store(true)
	if code := readyz(); code != http.StatusServiceUnavailable {
		t.Errorf("at the end /readyz is answered %d", code)
	}
}

// The same document has the same number everywhere, so that an alert can compare replicas.
func TestMetricsNameTheDocument(t *testing.T) {
	w := newWorld(t, intercept.HTTP, newBackend(t, named(baselineAnswered)), newBackend(t, named(copyAnswered)))
	first := valueOf(w.proxy.metrics.configHash)
	if first == 0 || valueOf(w.proxy.metrics.configRules) != 1 {
		t.Errorf("the document is %v with %v rules", first, valueOf(w.proxy.metrics.configRules))
	}
	w.config.Draining = true
	w.apply()
	if second := valueOf(w.proxy.metrics.configHash); second == first {
		t.Error("another document has the same number")
	}
	w.config.Draining = false
	w.apply()
	if third := valueOf(w.proxy.metrics.configHash); third != first {
		t.Errorf("the same document has the numbers %v and %v", first, third)
	}
}
