// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// copies makes the world's instance one whose components have verbs, and not itself: those of pods without a runner. A
// component without a log is refused.
func (w *world) copies(logs map[string]string) {
	for name := range logs {
		w.Verbs = append(w.Verbs, "components/"+name+"/log", "components/"+name+"/exec", "components/"+name+"/port-forward", "components/"+name+"/proxy-url")
	}
	w.Plane = func(rw http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/components/"), "/")
		if log := logs[name]; log != "" {
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = rw.Write([]byte(log))
			return
		}
		rw.WriteHeader(http.StatusConflict)
		_, _ = rw.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"message":"no pod of component ` + name + ` serves this verb now"}`))
	}
}

func linesOf(text string) []string {
	lines := slices.Collect(strings.Lines(text))
	slices.Sort(lines)
	return lines
}

func TestLogsOfComponentsStandBesideEachOther(t *testing.T) {
	w := newWorld(t)
	w.copies(map[string]string{"api": "one\ntwo\n", "web": "hello, and no end of the line"})
	code, stdout, stderr := w.Run(t, "logs", "web")
	want := []string{"api | one\n", "api | two\n", "web | hello, and no end of the line\n"}
	if diff := cmp.Diff(want, linesOf(stdout)); code != 0 || diff != "" {
		t.Errorf("exit code %d, %s, stdout (-want +got):\n%s", code, stderr, diff)
	}
	if _, stdout, _ = w.Run(t, "logs", "web", "--component", "api"); stdout != "one\ntwo\n" {
		t.Errorf("of one component: %q", stdout)
	}
	_, stdout, _ = w.Run(t, "logs", "web", "-o", "json")
	for _, line := range linesOf(stdout) {
		if !strings.HasPrefix(line, `{"component":"api","offset":`) && !strings.HasPrefix(line, `{"component":"web","offset":`) {
			t.Errorf("as JSON: %s", line)
		}
	}
	if lines := strings.Count(stdout, "\n"); lines != 3 {
		t.Errorf("as JSON it has %d lines: %s", lines, stdout)
	}
}

func TestAComponentWithoutALogLeavesTheOthers(t *testing.T) {
	w := newWorld(t)
	w.copies(map[string]string{"api": "", "web": "hello\n"})
	code, stdout, stderr := w.Run(t, "logs", "web")
	if code != cli.ExitFailure || stdout != "web | hello\n" ||
		!strings.Contains(stderr, "api | ") || !strings.Contains(stderr, "no pod of component api serves this verb now") || !strings.Contains(stderr, "could not be read: api") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestAVerbThatOnlyComponentsHaveAsksForOne(t *testing.T) {
	w := newWorld(t)
	w.copies(map[string]string{"api": "one\n", "web": "two\n"})
	for _, args := range [][]string{
		{"exec", "web", "--", "true"}, {"cp", "web:/x", "x"}, {"open", "web"}, {"port-forward", "web", "8080:80"},
	} {
		code, _, stderr := w.Run(t, args...)
		if !slices.Contains([]int{cli.ExitUsage, cli.ExitOurs}, code) || !strings.Contains(stderr, "add --component, with one of api, web") {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
	if code, _, stderr := w.Run(t, "logs", "web", "--component", "db"); code != cli.ExitUsage || !strings.Contains(stderr, "there are api, web") {
		t.Errorf("of one that is not there: exit code %d, %q", code, stderr)
	}
}
