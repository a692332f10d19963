// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
)

// goldenOf reads a golden file of a package of apis/wire, which clients are tested against too.
func goldenOf(t testing.TB, format, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "apis", "wire", format, "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(text, []byte("\n")))
}

func TestTheRunnerSaysHowACommandEndedAsTheGoldenFilesDo(t *testing.T) {
	s := startSandbox(t, "", nil)
	for script, file := range map[string]string{
		"true": "status-success.json", "exit 7": "status-exit.json", "kill -9 $$": "status-signal.json",
	} {
		for _, protocol := range []string{execwire.Protocol, execwire.PodProtocol} {
			c, _, err := s.dialExec(protocol, url.Values{"command": {"sh", "-c", script}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(goldenOf(t, "exec", file), c.message(execwire.ChannelStatus)); diff != "" {
				t.Errorf("%s, %s (-golden +got):\n%s", protocol, script, diff)
			}
		}
	}
}

func TestTheRunnerBeginsWithASessionAsTheGoldenFileDoes(t *testing.T) {
	s := startSandbox(t, "", nil)
	first := s.startExec(shell1("printf 123456789012; read x", "stdin"))
	first.read(func() bool { return first.offset == 12 })
	back := s.startExec(url.Values{execwire.ParamID: {first.id}, execwire.ParamOffset: {"12"}})
	got := strings.ReplaceAll(back.message(execwire.ChannelSession), first.id, "c-1")
	if diff := cmp.Diff(goldenOf(t, "exec", "session.json"), got); diff != "" {
		t.Errorf("session (-golden +got):\n%s", diff)
	}
}

func TestTheRunnerTakesMessagesOfTheGoldenFiles(t *testing.T) {
	s := startSandbox(t, "", nil)
	c := s.startExec(shell1("trap 'stty size; exit 5' INT; echo ready; while :; do sleep 0.02; done", "tty"))
	c.read(func() bool { return strings.Contains(c.out, "ready") })
	c.send(execwire.ChannelResize, goldenOf(t, "exec", "size.json"))
	c.send(execwire.ChannelSignal, goldenOf(t, "exec", "signal.json"))
	c.read(c.ended)
	if !strings.Contains(c.out, "43 132") || c.code() != "5" {
		t.Errorf("output %q, code %s", c.out, c.code())
	}
}

func TestTheRunnerListsNoCommandsAsTheGoldenFileDoes(t *testing.T) {
	s := startSandbox(t, "", nil)
	_, list := s.call("GET", "/exec", "")
	if diff := cmp.Diff(goldenOf(t, "exec", "list-empty.json"), strings.TrimSpace(list)); diff != "" {
		t.Errorf("list (-golden +got):\n%s", diff)
	}
}

// message returns the next message of a channel.
func (c *execClient) message(channel byte) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lateAfter)
	defer cancel()
	for {
		p, err := c.conn.Read(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		if p[0] == channel {
			return string(p[1:])
		}
	}
}
