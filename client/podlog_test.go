// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// kubelet is a pod's log: each request is answered with the lines that the node has by then, with their times
// as the kubelet writes them, and ends as it says.
type kubelet struct {
	t       *testing.T
	answers []answer
	queries []string
}

type answer struct {
	lines []string // "seconds text"; a text without a line feed at its end is half a line, and one after "-" has no time
	ends  string   // "well" as when the container ends, "broken", "open", or "absent"
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.queries = append(k.queries, r.URL.RawQuery)
	if len(k.answers) == 0 {
		k.t.Errorf("asked once more: %s", r.URL.RawQuery)
		return
	}
	a := k.answers[0]
	k.answers = k.answers[1:]
	if a.ends == "absent" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"kind":"Status","reason":"ServiceUnavailable","message":"there is no pod","code":503}`)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	if a.ends == "broken" {
		w.Header().Set("Content-Length", "100000")
	}
	for _, line := range a.lines {
		seconds, text, _ := strings.Cut(line, " ")
		if seconds == "-" {
			_, _ = io.WriteString(w, text)
			continue
		}
		offset, err := time.ParseDuration(seconds + "s")
		if err != nil {
			k.t.Error(err)
		}
		if r.URL.Query().Get("timestamps") == "true" {
			text = epoch.Add(offset).Format("2006-01-02T15:04:05.000000000Z07:00") + " " + text
		}
		_, _ = io.WriteString(w, text)
	}
	_ = http.NewResponseController(w).Flush()
	if a.ends == "open" {
		<-r.Context().Done()
	}
}

func TestTheLogOfAPodGoesOnBehindTheEndOfAContainerAndABrokenConnection(t *testing.T) {
	const crash = "container main has ended and is started again (the last time: exit code 3); its log tells why"
	for name, c := range map[string]struct {
		answers []answer
		ready   string // the message of Ready=False
		want    []string
	}{
		"a container ends, and the next one writes": {
			[]answer{
				{[]string{"1 a\n", "2 b\n"}, "well"},
				{[]string{"1 a\n", "2 b\n"}, "well"}, // of the one that ended, while the next one is waited for
				{[]string{"3 c\n"}, "well"},
				{[]string{"4 end\n"}, "open"},
			},
			crash,
			[]string{"connected", "a\n", "b\n", "ended " + crash, "connected", "c\n", "ended " + crash, "connected", "end\n"},
		},
		"a pod is replaced": {
			[]answer{{[]string{"1 a\n"}, "broken"}, {nil, "absent"}, {[]string{"2 end\n"}, "open"}},
			"",
			[]string{"connected", "a\n", "disconnected", "disconnected", "connected", "end\n"},
		},
		"a pod is deleted, and the kubelet says so in the place of a log": {
			[]answer{
				{[]string{"1 a\n"}, "well"},
				{[]string{"- unable to retrieve container logs for containerd://11b8fee8"}, "well"},
				{[]string{`- failed to try resolving symlinks in path "/var/log/pods/sb-a_b/main/0.log": lstat: no such file or directory`}, "well"},
				{[]string{"2 end\n"}, "open"},
			},
			crash,
			[]string{"connected", "a\n", "ended " + crash, "connected", "end\n"},
		},
		"an app writes what the kubelet says": {
			[]answer{{[]string{"1 unable to retrieve container logs for fun\n"}, "broken"}, {[]string{"2 end\n"}, "open"}},
			"",
			[]string{"connected", "unable to retrieve container logs for fun\n", "disconnected", "connected", "end\n"},
		},
		"a connection breaks between lines of one time": {
			[]answer{{[]string{"1 a\n", "1 b\n"}, "broken"}, {[]string{"1 a\n", "1 b\n", "1 c\n", "2 end\n"}, "open"}},
			"",
			[]string{"connected", "a\n", "b\n", "disconnected", "connected", "c\n", "end\n"},
		},
		"a connection breaks in a line": {
			[]answer{{[]string{"1 a\n", "2 ha"}, "broken"}, {[]string{"1 a\n", "2 half"}, "broken"}, {[]string{"1 a\n", "2 half a line\n", "3 end\n"}, "open"}},
			"",
			[]string{"connected", "a\n", "ha", "disconnected", "connected", "lf", "disconnected", "connected", " a line\n", "end\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &kubelet{t: t, answers: c.answers}
			w := newWorld(t, k.ServeHTTP)
			if c.ready != "" {
				w.status["conditions"] = []any{map[string]any{"type": "Ready", "status": "False", "reason": "CrashLoop", "message": c.ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}}
			}
			i, err := w.instance(t, "web")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var got []string
			for e, err := range i.Logs(ctx, client.LogOptions{Follow: true}) {
				if err != nil {
					t.Fatalf("%v, after %q", err, got)
				}
				what := string(e.Type)
				switch e.Type {
				case client.LogOutput:
					what = string(e.Record.Data)
					if e.Record.Time.IsZero() {
						t.Errorf("%q has no time", what)
					}
				case client.LogEnded:
					what += " " + e.Message
				case client.LogGap, client.LogDisconnected, client.LogConnected, client.LogKept, client.LogReplaced:
				}
				if got = append(got, what); what == "end\n" {
					break
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if since := k.queries[len(k.queries)-1]; !strings.Contains(since, "since=") || strings.Contains(k.queries[0], "since=") {
				t.Errorf("asked %q: all but the first go on from a time", k.queries)
			}
		})
	}
}

// What Ready says at the end of a container may still be about the one before, and quotes the end of its log.
func TestTheEndOfAContainerIsNotThatOfTheOneBefore(t *testing.T) {
	ended := func(code, words string) string {
		return "container main has ended and is started again (the last time: exit code " + code + "); its log tells why. " +
			sandbarv1alpha1.LastWordsMark + words
	}
	says := func(message string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "CrashLoop", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}}
	}
	for name, c := range map[string]struct {
		found string   // by who begins to follow
		says  []string // by each look at the end of the first container; the last one stays
		want  string
	}{
		"Ready changes a moment later":      {ended("3", "b"), []string{ended("3", "b"), ended("3", "b"), ended("7", "d")}, "7"},
		"it was well, and changes at once":  {"", []string{ended("7", "d")}, "7"},
		"it ends as the one before it did":  {ended("3", "b"), []string{ended("3", "b")}, "3"},
		"it ends so, and with other words":  {ended("3", "b"), []string{ended("3", "d")}, "3"},
		"Ready says first that it is tried": {"it is being started", []string{"it is being started", ended("7", "d")}, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			world := newWorldSaying(t, func() map[string]any {
				looks++ // one is who begins to follow
				switch {
				case looks > 1:
					return says(c.says[min(looks-2, len(c.says)-1)])
				case c.found == "":
					return map[string]any{}
				}
				return says(c.found)
			}, (&kubelet{t: t, answers: []answer{{[]string{"1 d\n"}, "well"}, {[]string{"2 end\n"}, "open"}}}).ServeHTTP)
			i, err := world.instance(t, "web")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var lines, told []string
			for e, err := range i.Logs(ctx, client.LogOptions{Follow: true}) {
				if err != nil {
					t.Fatalf("%v, after %q", err, told)
				}
				if e.Type == client.LogEnded {
					told = append(told, e.Message)
				}
				if e.Type == client.LogOutput {
					if lines = append(lines, string(e.Record.Data)); lines[len(lines)-1] == "end\n" {
						break
					}
				}
			}
			if diff := cmp.Diff([]string{"d\n", "end\n"}, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			want := []string{"container main has ended and is started again (the last time: exit code " + c.want + "); its log tells why"}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

// An answer without times cannot be resumed, and an app's own times stay in its lines.
func TestALogWithoutTheKubeletsTimesIsNotResumed(t *testing.T) {
	line := "2026-01-02T03:04:05.123Z of the app\n"
	i, err := newWorld(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, line)
	}).instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var last error
	for e, err := range i.Logs(t.Context(), client.LogOptions{Follow: true}) {
		got.Write(e.Record.Data)
		last = err
	}
	if got.String() != line || last == nil || !strings.Contains(last.Error(), client.ErrLogCut.Error()) {
		t.Errorf("got %q and %v", got.String(), last)
	}
}
