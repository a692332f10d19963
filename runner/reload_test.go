// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// withRules starts a sandbox whose app prints when it starts, with reload rules.
func withRules(t *testing.T, rules string) *sandbox {
	t.Helper()
	return startSandbox(t, "echo started; exec sleep 600", func(c *Config) {
		var err error
		if c.Reload, err = parseReload(rules); err != nil {
			t.Fatal(err)
		}
	})
}

// sync writes files and returns the answer.
func (s *sandbox) sync(restart string, files ...string) syncwire.Reply {
	s.t.Helper()
	var list []string
	for _, file := range files {
		path, content, _ := strings.Cut(file, "=")
		list = append(list, fmt.Sprintf(`{"path":%q,"content":%q}`, path, content))
	}
	status, body := s.call("POST", "/sync", fmt.Sprintf(`{"files":[%s],"restart":%q}`, strings.Join(list, ","), restart))
	if status != 200 {
		s.t.Fatalf("sync: %d %s", status, body)
	}
	var reply syncwire.Reply
	if err := json.Unmarshal([]byte(body), &reply); err != nil {
		s.t.Fatal(err)
	}
	return reply
}

func TestAChangedPathSetsOffItsRule(t *testing.T) {
	const rules = `[{"paths":["*.py"],"command":"cat program.py"},{"paths":["notes/**"],"command":"echo noted","restart":false},{"paths":["broken"],"command":"echo no >&2; exit 3"},{"paths":["/now"]}]`
	for name, tc := range map[string]struct {
		restart  string
		file     string
		want     *syncwire.Reload
		restarts bool
		logged   string
	}{
		"the command runs, then the app restarts": {
			"auto", `program.py=echo "quoted $HOME" '$(x)'`, &syncwire.Reload{State: syncwire.ReloadDone, Rules: []int{0}, Restarted: true}, true, `echo "quoted $HOME" '$(x)'`,
		},
		"also when the caller asks for nothing": {
			"never", "program.py=1\n", &syncwire.Reload{State: syncwire.ReloadDone, Rules: []int{0}, Restarted: true}, true, "1",
		},
		"a rule that does not restart": {
			"auto", "notes/deep/a=1", &syncwire.Reload{State: syncwire.ReloadDone, Rules: []int{1}}, false, "noted",
		},
		"the caller restarts whatever the rule says": {
			"always", "notes/deep/a=1", &syncwire.Reload{State: syncwire.ReloadDone, Rules: []int{1}, Restarted: true}, true, "noted",
		},
		"a command that fails leaves the app": {
			"auto", "broken=1", &syncwire.Reload{
				State: syncwire.ReloadFailed, Rules: []int{2},
				Message: "the command of rule 2 (broken) exited with code 3; the app goes on as it was, and the log has what it said",
			}, false, "no",
		},
		"a rule without a command":   {"auto", "now=1", &syncwire.Reload{State: syncwire.ReloadDone, Rules: []int{3}, Restarted: true}, true, "started"},
		"a pattern from the root":    {"auto", "deep/now=1", nil, false, "started"},
		"a path that no rule means":  {"auto", "index.html=1", nil, false, "started"},
		"a restart without any rule": {"always", "index.html=1", nil, true, "started"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withRules(t, rules)
			await(t, s.lines(""), "started")
			before := callJSON[statusReply](s, "GET", "/status", "", 200)
			reply := s.sync(tc.restart, tc.file)
			if diff := cmp.Diff(tc.want, reply.Reload); diff != "" {
				t.Errorf("reload (-want +got):\n%s", diff)
			}
			after := callJSON[statusReply](s, "GET", "/status", "", 200)
			if restarted := after.Attempt != before.Attempt; restarted != tc.restarts || reply.Restarted != tc.restarts {
				t.Errorf("restarted: %v, and the answer says %v; want %v", restarted, reply.Restarted, tc.restarts)
			}
			if diff := cmp.Diff(tc.want, after.Reload); diff != "" {
				t.Errorf("in the status (-want +got):\n%s", diff)
			}
			await(t, s.lines(""), tc.logged)
		})
	}
}

// An app that does not run is started by any change: the change may be the cure.
func TestAnAppThatDoesNotRunIsStartedByAnyChange(t *testing.T) {
	s := startSandbox(t, "echo begins; exec cat missing", func(c *Config) { c.Reload = []ReloadRule{{Paths: []string{"*.py"}}} })
	await(t, s.lines(""), "begins")
	for callJSON[statusReply](s, "GET", "/status", "", 200).PID != 0 { // it has begun and not ended yet
		runtime.Gosched()
	}
	if reply := s.sync("auto", "index.html=1"); !reply.Restarted {
		t.Errorf("%+v", reply)
	}
}

// Half a project is not what is to be installed.
func TestRulesWaitForTheLastOfSeveralBatches(t *testing.T) {
	s := withRules(t, `[{"paths":["lock"],"command":"cat late"},{"paths":["late"]}]`)
	if reply := s.sync("later", "lock=1"); reply.Reload != nil || reply.Restarted {
		t.Errorf("the first batch: %+v", reply)
	}
	want := &syncwire.Reload{State: syncwire.ReloadDone, Rules: []int{0, 1}, Restarted: true}
	if diff := cmp.Diff(want, s.sync("start", "late=it came\n").Reload); diff != "" {
		t.Errorf("the last batch (-want +got):\n%s", diff)
	}
	await(t, s.lines(""), "it came")
}

// What a command leaves behind ends with it, and holds up nobody.
func TestWhatACommandLeavesBehindEnds(t *testing.T) {
	s := withRules(t, `[{"paths":["*"],"command":"sleep 600 & echo left"}]`)
	if reply := s.sync("auto", "a=1"); reply.Reload == nil || reply.Reload.State != syncwire.ReloadDone {
		t.Errorf("%+v", reply.Reload)
	}
}

// The runner ends although a command runs.
func TestTheEndOfTheRunnerEndsACommand(t *testing.T) {
	s := withRules(t, `[{"paths":["*"],"command":"echo begun; exec sleep 600"}]`)
	var syncing sync.WaitGroup
	syncing.Go(func() {
		// The command was killed, and the answer may say so or be lost with the runner.
		if response, err := s.client.Do(s.request("POST", "/sync", `{"files":[{"path":"a","content":"1"}]}`)); err == nil {
			response.Body.Close()
		}
	})
	await(t, s.lines(""), "begun")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	syncing.Wait()
}

// Two commands at once would break the workspace; what comes while one runs is put together.
func TestCommandsRunOneAfterTheOther(t *testing.T) {
	begun, goOn := make(chan string), make(chan error)
	var restarts int
	l := newReloader([]ReloadRule{{Paths: []string{"a"}, Command: "A"}, {Paths: []string{"b"}, Command: "B"}},
		func(_ context.Context, command string) error { begun <- command; return <-goOn },
		func(context.Context) error { restarts++; return nil })
	defer l.Close()
	first := l.begin(l.match([]string{"a"}), false)
	if got := <-begun; got != "A" {
		t.Fatal(got)
	}
	second, third := l.begin(l.match([]string{"b"}), false), l.begin(l.match([]string{"a", "b", "a"}), false)
	if second == first || third != second {
		t.Error("what comes while a command runs is not put together")
	}
	if got := l.status(); got.State != syncwire.ReloadRunning {
		t.Errorf("%+v", got)
	}
	goOn <- errors.New("failed")
	var order []string
	for range 2 {
		order = append(order, <-begun)
		goOn <- nil
	}
	if <-third.done; !slices.Equal(order, []string{"A", "B"}) || restarts != 1 {
		t.Errorf("ran %v, restarted %d times", order, restarts)
	}
	if first.reply.State != syncwire.ReloadFailed || third.reply.State != syncwire.ReloadDone {
		t.Errorf("%+v, %+v", first.reply, third.reply)
	}
}

func TestRulesThatAreNoneAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                    "must be a list of rules",
		`[` + strings.Repeat(`{},`, 16) + `{}]`: "has 17 rules, and may have 16",
	} {
		if _, err := parseReload(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
