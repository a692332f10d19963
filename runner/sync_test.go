// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/supervise"
)

func TestAnEditIsSyncedRestartsTheAppAndIsSeenInTheLog(t *testing.T) {
	s := startSandbox(t, "cat message.txt; echo; exec sleep 1000", nil)
	lines := s.lines("stream=stdout")
	reply := callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"message.txt","content":"first"}],"restart":"auto"}`, 200)
	want := syncwire.Reply{Phase: "Synced", Revision: 1, Changed: []string{"message.txt"}, Deleted: []string{}, Restarted: true}
	if diff := cmp.Diff(want, reply, cmp.AllowUnexported(apiError{})); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	await(t, lines, "first")
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"message.txt","content":"second"}],"restart":"always"}`, 200)
	await(t, lines, "second")
	status := callJSON[statusReply](s, "GET", "/status", "", 200)
	if status.State != supervise.Running || status.PID == 0 || status.Workspace.Revision != 2 || status.StartTime == nil ||
		status.LastExit == nil || status.Logs.NextOffset == 0 || status.Port != 3000 || len(status.Capabilities) == 0 {
		t.Errorf("the status is %+v", status)
	}
}

func TestWhenASyncRestartsTheApp(t *testing.T) {
	const write, same = `{"path":"a","content":"%d"}`, `{"path":"same","content":"x"}`
	s := startSandbox(t, "exec sleep 1000", nil)
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[`+same+`]}`, 200)
	for i, test := range []struct {
		name, restart, file string
		want                bool
	}{
		{"no word, changed", `""`, write, false},
		{"never, changed", `"never"`, write, false},
		{"start, changed", `"start"`, write, false},
		{"auto, changed", `"auto"`, write, true},
		{"auto, unchanged", `"auto"`, same, false},
		{"always, unchanged", `"always"`, same, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := test.file
			if file == write {
				file = fmt.Sprintf(write, i)
			}
			before := callJSON[statusReply](s, "GET", "/status", "", 200).Attempt
			reply := callJSON[syncwire.Reply](s, "POST", "/sync", fmt.Sprintf(`{"files":[%s],"restart":%s}`, file, test.restart), 200)
			after := callJSON[statusReply](s, "GET", "/status", "", 200).Attempt
			if reply.Restarted != test.want || (after != before) != test.want {
				t.Errorf("restarted is %v, and attempt %d became %d; want %v", reply.Restarted, before, after, test.want)
			}
		})
	}
}

// A development server that runs in an empty workspace has read no configuration.
func TestTheFirstFilesStartTheAppAnew(t *testing.T) {
	for mode, want := range map[string]bool{"never": false, "start": true, "auto": true} {
		t.Run(mode, func(t *testing.T) {
			s := startSandbox(t, "echo up; exec sleep 1000", nil)
			await(t, s.lines(""), "up")
			for i, want := range []bool{want, want && mode == "auto"} {
				body := fmt.Sprintf(`{"files":[{"path":"a","content":"%d"}],"restart":"%s"}`, i, mode)
				if reply := callJSON[syncwire.Reply](s, "POST", "/sync", body, 200); reply.Restarted != want {
					t.Errorf("sync %d: the reply is %+v, want restarted %v", i+1, reply, want)
				}
			}
		})
	}
}

// An app that is started from a part of a project has read a part of its configuration.
func TestWhatFollowsASyncThatSaysLaterFollowsTheNext(t *testing.T) {
	s := startSandbox(t, "echo up; exec sleep 1000", nil)
	await(t, s.lines(""), "up")
	for i, step := range []struct {
		body string
		want bool
	}{
		{`{"files":[{"path":"a","content":"1"}],"restart":"later"}`, false},
		{`{"files":[{"path":"b","content":"1"}],"restart":"later"}`, false},
		{`{"restart":"start"}`, true}, // the first files are complete
		{`{"files":[{"path":"a","content":"2"}],"restart":"start"}`, false},
		{`{"files":[{"path":"a","content":"3"}],"restart":"later"}`, false},
		{`{"restart":"auto"}`, true},
		{`{"restart":"auto"}`, false},
		{`{"files":[{"path":"a","content":"4"}],"restart":"later"}`, false},
		{`{"restart":"never"}`, false}, // has the last word on all of it
		{`{"restart":"auto"}`, false},
	} {
		before := callJSON[statusReply](s, "GET", "/status", "", 200).Attempt
		reply := callJSON[syncwire.Reply](s, "POST", "/sync", step.body, 200)
		after := callJSON[statusReply](s, "GET", "/status", "", 200).Attempt
		if reply.Restarted != step.want || (after != before) != step.want {
			t.Errorf("step %d, %s: restarted is %v, and attempt %d became %d", i, step.body, reply.Restarted, before, after)
		}
	}
}

func TestASyncCuresACrashingAppEvenIfNothingChanged(t *testing.T) {
	s := startSandbox(t, "echo up; exit 3", nil)
	await(t, s.lines(""), "up")
	for _, mode := range []string{"auto", "start"} {
		// Until the end of an attempt has been noticed.
		for late := time.Now().Add(lateAfter); callJSON[statusReply](s, "GET", "/status", "", 200).State != supervise.Backoff; {
			if time.Now().After(late) {
				t.Fatal("the app does not crash")
			}
		}
		if reply := callJSON[syncwire.Reply](s, "POST", "/sync", `{"restart":"`+mode+`"}`, 200); !reply.Restarted {
			t.Errorf("%s: the reply is %+v, want a restart", mode, reply)
		}
	}
}

// A program that fails after a moment runs at most of the moments at which a sync can come: that
// it runs just then must not keep it in its backoff of up to half a minute.
func TestASyncStartsAnewAnAppThatDoesNotStayUp(t *testing.T) {
	// What says "up" has decided to fail: the file cannot come in between.
	s := startSandbox(t, `test -e wait && echo stays && exec sleep 1000; echo up; exit 3`, nil)
	lines := s.lines("")
	for range 2 {
		await(t, lines, "up")
	}
	if err := os.WriteFile(filepath.Join(s.dir, "wait"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, lines, "stays") // this attempt runs, and is too young to be a recovery
	if reply := callJSON[syncwire.Reply](s, "POST", "/sync", `{"restart":"start"}`, 200); !reply.Restarted {
		t.Errorf("the reply is %+v, want a restart", reply)
	}
	if reply := callJSON[syncwire.Reply](s, "POST", "/sync", `{"restart":"start"}`, 200); reply.Restarted {
		t.Errorf("the reply is %+v: it has been asked for a moment ago and runs", reply)
	}
}

func TestWithoutACommandFilesAreSyncedAndARestartIsRefused(t *testing.T) {
	s := startSandbox(t, "", nil)
	reply := callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"a","content":"1"}],"restart":"always"}`, 200)
	if reply.Restarted || reply.RestartError == nil || reply.RestartError.Code != "NotConfigured" {
		t.Errorf("the reply is %+v, want the reason why nothing was restarted", reply)
	}
	if reply := callJSON[syncwire.Reply](s, "POST", "/sync", `{"restart":"auto"}`, 200); reply.Restarted || reply.RestartError != nil {
		t.Errorf("the reply is %+v, want no restart and no error", reply)
	}
	if e := callJSON[apiError](s, "POST", "/restart", "", http.StatusConflict); e.Code != "NotConfigured" {
		t.Errorf("the code is %s, want NotConfigured", e.Code)
	}
	if st := callJSON[statusReply](s, "GET", "/status", "", 200); st.State != supervise.NotConfigured {
		t.Errorf("the state is %s, want NotConfigured", st.State)
	}
}

func TestRefusedSyncs(t *testing.T) {
	s := startSandbox(t, "", func(c *Config) {
		c.SyncBytes, c.Workspace.Files, c.Workspace.FileBytes = 1000, 2, 100
	})
	callJSON[statusReply](s, "GET", "/status", "", 200) // the workspace is there
	if err := os.Symlink(t.TempDir(), filepath.Join(s.dir, "link")); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	for name, test := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"a body above the limit":      {`{"files":[{"path":"a","content":"` + long + `"}]}`, 413, "RequestTooLarge"},
		"a file above the limit":      {`{"files":[{"path":"a","content":"` + long[:101] + `"}]}`, 413, "FileTooLarge"},
		"files above the limit":       {`{"files":[{"path":"a"},{"path":"b"}],"deletePaths":["c"]}`, 413, "TooManyFiles"},
		"a path out of the workspace": {`{"files":[{"path":"a"},{"path":"../b"}]}`, 400, "InvalidPath"},
		"a file twice":                {`{"files":[{"path":"a"},{"path":"a"}]}`, 400, "InvalidBatch"},
		"a body that is no JSON":      {`files`, 400, "MalformedRequest"},
		"a symlink on the way":        {`{"files":[{"path":"link/a"}]}`, 409, "Conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := callJSON[apiError](s, "POST", "/sync", test.body, test.status); e.Code != test.code {
				t.Errorf("the code is %s (%s), want %s", e.Code, e.Message, test.code)
			}
			if _, err := os.Stat(filepath.Join(s.dir, "a")); err == nil {
				t.Error("a part of the batch was applied")
			}
		})
	}
	t.Run("a body of unknown length above the limit", func(t *testing.T) {
		body := io.MultiReader(strings.NewReader(`{"files":[{"path":"a","content":"`), strings.NewReader(long), strings.NewReader(`"}]}`))
		r, err := http.NewRequest(http.MethodPost, s.url+"/sync", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(TokenHeader, testToken)
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "1000 bytes") {
			t.Errorf("the answer is %d %s, want 413 and the limit", response.StatusCode, text)
		}
	})
}
