// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

var byMessage = url.Values{execwire.ParamMessage: {"true"}}

// sendCommand sends a command in parts.
func (c *execClient) sendCommand(text string) {
	c.t.Helper()
	for len(text) > 0 {
		part := text[:min(len(text), execwire.MaxInputBytes-1)]
		c.send(execwire.ChannelCommand, part)
		text = text[len(part):]
	}
	c.send(execwire.ChannelCommand, "")
}

func startText(t *testing.T, start execwire.Start) string {
	t.Helper()
	text, err := json.Marshal(start)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Two hundred arguments and a script of 20 KiB are what build tools and agents send.
func TestACommandTooLongForAnAddressComesInMessages(t *testing.T) {
	s := startSandbox(t, "", nil)
	many := []string{"sh", "-c", "echo $#", "sh"}
	for i := range 5000 {
		many = append(many, fmt.Sprintf("argument %d", i))
	}
	for name, c := range map[string]struct {
		start execwire.Start
		out   string
	}{
		"many arguments":     {execwire.Start{Args: many}, "5000\n"},
		"a long script":      {execwire.Start{Args: []string{"sh", "-c", strings.Repeat("# a comment\n", 8000) + "echo end"}}, "end\n"},
		"an argument at 100": {execwire.Start{Args: []string{"sh", "-c", "echo ${#1}", "sh", strings.Repeat("x", 100<<10)}}, "102400\n"},
		"a short one":        {execwire.Start{Args: []string{"echo", "hello"}}, "hello\n"},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.startExec(byMessage)
			client.sendCommand(startText(t, c.start))
			client.read(client.ended)
			if client.out != c.out || client.status.Status != "Success" || client.id == "" {
				t.Errorf("output %q, errors %q, status %+v", client.out, client.errs, client.status)
			}
		})
	}
}

func TestTheRunnerTakesACommandOfTheGoldenFile(t *testing.T) {
	s := startSandbox(t, "", nil)
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"sub/file","content":"here"}]}`, 200)
	c := s.startExec(byMessage)
	c.sendCommand(strings.Replace(goldenOf(t, "exec", "start.json"), `echo \"$1\"`, `stty size; cat file; read x; echo got $x \"$1\"`, 1))
	c.read(func() bool { return c.id != "" })
	c.send(execwire.ChannelStdin, "input\n")
	c.read(c.ended)
	for _, want := range []string{"43 132", "here", "got input", "é"} {
		if !strings.Contains(c.out, want) {
			t.Errorf("the output %q lacks %q", c.out, want)
		}
	}
}

func TestACommandInMessagesThatIsRefused(t *testing.T) {
	s := startSandbox(t, "", nil)
	for name, c := range map[string]struct {
		text     string
		code     string
		says     string
		exitCode int
	}{
		"an unknown program":         {`{"command":["does-not-exist"]}`, "CommandNotStarted", "not in the PATH", 127},
		"more than the kernel takes": {`{"command":["true","` + strings.Repeat("x", 128<<10) + `"]}`, "CommandNotStarted", "128 KiB", 126},
		"no command":                 {`{}`, "MalformedRequest", "command is missing", 0},
		"a zero byte":                {`{"command":["a\u0000b"]}`, "MalformedRequest", "zero byte", 0},
		"a directory outside":        {`{"command":["ls"],"dir":"../.."}`, "InvalidPath", "..", 0},
		"no JSON":                    {`command=ls`, "MalformedRequest", `{"command": [`, 0},
		"no UTF-8":                   {"{\"command\":[\"a\xff\"]}", "MalformedRequest", "UTF-8", 0},
		"too much":                   {`{"command":["` + strings.Repeat("x", execwire.MaxCommandBytes), "MalformedRequest", strconv.Itoa(execwire.MaxCommandBytes), 0},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.startExec(byMessage)
			client.sendCommand(c.text)
			client.read(client.ended)
			st := client.status
			if exit, _ := st.ExitCode(); st.Status != "Failure" || st.Reason != c.code || !strings.Contains(st.Message, c.says) || exit != c.exitCode {
				t.Errorf("got %+v, want %s with %q and code %d", st, c.code, c.says, c.exitCode)
			}
			if client.id != "" {
				t.Error("a command was started")
			}
		})
	}
	t.Run("another channel first", func(t *testing.T) {
		client := s.startExec(byMessage)
		client.send(execwire.ChannelStdin, "x")
		client.read(client.ended)
		if client.status.Reason != "MalformedRequest" {
			t.Errorf("got %+v", client.status)
		}
	})
	t.Run("another parameter", func(t *testing.T) {
		_, response, err := s.dialExec(execwire.Protocol, url.Values{"message": {"true"}, "command": {"ls"}})
		if err == nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the protocol of pods", func(t *testing.T) {
		client, _, err := s.dialExec(execwire.PodProtocol, byMessage)
		if err != nil {
			t.Fatal(err)
		}
		if err := client.next(); wsconn.CloseCode(err) != websocket.ClosePolicyViolation {
			t.Errorf("the connection ended with %v", err)
		}
	})
	if st := callJSON[statusReply](s, "GET", "/status", "", 200); st.Commands != 0 {
		t.Errorf("%d commands run", st.Commands)
	}
}

// A client that goes before its command is whole leaves nothing.
func TestAClientThatSendsHalfACommandStartsNothing(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(byMessage)
	c.send(execwire.ChannelCommand, `{"command":["touch",`)
	_ = c.conn.CloseNow()
	whole := s.startExec(byMessage)
	whole.sendCommand(`{"command":["true"]}`)
	whole.read(whole.ended)
	var list execwire.List
	_, body := s.call("GET", "/exec", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Commands) != 1 {
		t.Errorf("got %s, %v", body, err)
	}
}
