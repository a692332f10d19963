// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

var someLog = []logwire.Record{
	{Offset: 0, Time: time.Unix(0, 0).UTC(), Stream: "stdout", Attempt: 1, Data: []byte("half")},
	{Offset: 4, Time: time.Unix(1, 0).UTC(), Stream: "stderr", Attempt: 1, Data: []byte("\x1b[2Joops\n")},
	{Offset: 20, Lost: 8},
	{Offset: 20, Time: time.Unix(2, 0).UTC(), Stream: "stdout", Attempt: 1, Data: []byte("end\n")},
}

func serveLog(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/log" {
			t.Errorf("%s was called", r.URL.Path)
		}
		w.Header().Set("Content-Type", logwire.ContentType)
		w.Header().Set(logwire.IDHeader, "a")
		offset, _ := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64)
		var body strings.Builder
		for _, record := range someLog {
			if record.Offset >= offset {
				line, _ := json.Marshal(record)
				body.Write(append(line, '\n'))
			}
		}
		w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
		text := body.String()
		if offset == 0 {
			text = text[:strings.Index(text, "\n")+10] // and the connection breaks
		}
		_, _ = io.WriteString(w, text)
	}
}

func TestLogsPrintsDataToStdoutAndWhatHappenedToStderr(t *testing.T) {
	w := newWorld(t)
	w.Plane = serveLog(t)
	code, stdout, stderr := w.Run(t, "logs", "web", "--timestamps")
	want := "1970-01-01T00:00:00.000Z half\n1970-01-01T00:00:01.000Z \x1b[2Joops\n1970-01-01T00:00:02.000Z end\n"
	if code != 0 || stdout != want {
		t.Errorf("exit code %d, stdout %q, want %q", code, stdout, want)
	}
	for _, want := range []string{"is lost (", "the log goes on", "8 bytes of the log were dropped"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr does not say %q: %s", want, stderr)
		}
	}
}

func TestLogsAsJSONIsOneObjectALine(t *testing.T) {
	w := newWorld(t)
	w.Plane = serveLog(t)
	_, stdout, _ := w.Run(t, "logs", "web", "-o", "json")
	var got []logwire.Record
	for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
		var r logwire.Record
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(got) != len(someLog) || strings.Count(stdout, "\n") != len(someLog) || got[2].Lost != 8 {
		t.Errorf("got %s", stdout)
	}
}

func TestATerminalDoesNotObeyTheSandbox(t *testing.T) {
	var out strings.Builder
	p := logPrinter{out: &out, notes: io.Discard, terminal: true}
	for _, record := range someLog {
		if err := p.print(client.LogEvent{Type: client.LogOutput, Record: record}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "half\n\\x1b[2Joops\nend\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTheEndOfAContainerIsToldApartFromABrokenConnection(t *testing.T) {
	var notes strings.Builder
	p := newLogPrinter(io.Discard, &notes, false, false)
	for _, e := range []client.LogEvent{
		{Type: client.LogConnected}, {Type: client.LogEnded, Message: "exit code 3\x1b[2J"}, {Type: client.LogConnected}, {Type: client.LogEnded},
	} {
		if err := p.print(e); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	for line := range strings.Lines(notes.String()) {
		_, what, _ := strings.Cut(strings.TrimSpace(line), "] ")
		told = append(told, what)
	}
	want := []string{
		`the container ended: exit code 3\x1b[2J; the log goes on when the next one writes something`, "the log goes on",
		"the container ended; the log goes on when the next one writes something",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestHowConflictsAreDecidedIsToldOnce(t *testing.T) {
	var told strings.Builder
	p := &eventPrinter{out: &told, decides: "sandbar sync web . --prefer local|remote [PATH...]"}
	for _, conflicts := range []int{0, 1, 2} {
		p.print(devsync.Event{Type: devsync.EventSettled, Conflicts: conflicts})
	}
	if got := strings.Count(told.String(), "sandbar sync web . --prefer local|remote [PATH...] decides"); got != 1 {
		t.Errorf("told %d times: %s", got, told.String())
	}
}

// A start command was changed under dev: its pod is replaced, which its state tells a moment later.
func TestAPodThatIsReplacedIsNoLostConnectionWhereItsStateIsTold(t *testing.T) {
	unreachable := &client.CallError{Code: http.StatusBadGateway, Message: "the instance's pod does not accept connections"}
	for name, c := range map[string]struct {
		stateTold bool
		after     time.Duration // of the second answer
		err       *client.CallError
		tells     bool
	}{
		"for a moment, and the state is told": {true, 3 * time.Second, unreachable, false},
		"for long":                            {true, time.Minute, unreachable, true},
		"nobody tells the state":              {false, 3 * time.Second, unreachable, true},
		"the app's own answer":                {true, 3 * time.Second, &client.CallError{Code: http.StatusBadGateway, Sandbox: true, Message: "x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var notes strings.Builder
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			p := newLogPrinter(io.Discard, &notes, false, false)
			p.stateTold, p.now = c.stateTold, func() time.Time { return now }
			for i, e := range []client.LogEvent{{Type: client.LogConnected}, {Type: client.LogDisconnected, Err: io.EOF}, {Type: client.LogDisconnected, Err: c.err}} {
				if i == 2 {
					now = now.Add(c.after)
				}
				if err := p.print(e); err != nil {
					t.Fatal(err)
				}
			}
			if tells := strings.Contains(notes.String(), "the connection to the log is lost"); tells != c.tells {
				t.Errorf("it says %q", notes.String())
			}
		})
	}
}

// A progress bar on a terminal is one line, and elsewhere the bytes that were written.
func TestAProgressBarBeginsItsLineAgainOnATerminal(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	records := []logwire.Record{
		{Time: at, Stream: "stdout", Attempt: 1, Data: []byte("\x1b[38:5:2m10%\r")},
		{Time: at, Stream: "stdout", Attempt: 1, Data: []byte("\x1b[2K20%\r")},
		{Time: at, Stream: "stderr", Attempt: 1, Data: []byte("note\r\n")},
		{Time: at, Stream: "stdout", Attempt: 1, Data: []byte("90%\r100%\n")},
	}
	const stamp = "1970-01-01T00:00:00.000Z "
	for name, c := range map[string]struct {
		component            string
		terminal, timestamps bool
		want                 string
	}{
		"a terminal":                  {"", true, false, "\x1b[38:5:2m10%\x1b[0m\r\x1b[K20%\nnote\n90%\r\x1b[K100%\n"},
		"a terminal, with times":      {"", true, true, stamp + "\x1b[38:5:2m10%\x1b[0m\r\x1b[K" + stamp + "20%\n" + stamp + "note\n" + stamp + "90%\r\x1b[K" + stamp + "100%\n"},
		"a terminal, with components": {"web", true, false, "web | 20%\nweb | note\nweb | 100%\n"},
		"a pipe":                      {"", false, false, "\x1b[38:5:2m10%\r\x1b[2K20%\r\nnote\r\n90%\r100%\n"},
		"a pipe, with components":     {"web", false, false, "web | \x1b[38:5:2m10%\r\x1b[2K20%\r\nweb | note\r\nweb | 90%\r100%\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			to := prefixed(&out, c.component)
			if l, ok := to.(*linePrefix); ok {
				l.terminal = c.terminal
			}
			p := logPrinter{out: to, notes: io.Discard, terminal: c.terminal, timestamps: c.timestamps}
			for _, record := range records {
				if err := p.print(client.LogEvent{Type: client.LogOutput, Record: record}); err != nil {
					t.Fatal(err)
				}
			}
			if out.String() != c.want {
				t.Errorf("got  %q,\nwant %q", out.String(), c.want)
			}
		})
	}
}

func TestWithoutAKubeconfigAPersonIsToldWhatToPass(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	code, _, stderr := (&world{&clitest.World{NewRoot: newRootCommand, Trust: filepath.Join(t.TempDir(), "trust.json")}}).Run(t, "logs", "web")
	if code != cli.ExitUsage || !strings.Contains(stderr, "which $KUBECONFIG names: make it with sandbar login URL") || strings.Contains(stderr, "MASTER") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestNoSandboxIsMadeForADirectoryThatIsNotThere(t *testing.T) {
	w := &world{&clitest.World{NewRoot: newRootCommand, Kubeconfig: filepath.Join(t.TempDir(), "none"), Trust: filepath.Join(t.TempDir(), "trust.json")}}
	code, _, stderr := w.Run(t, "dev", "web", filepath.Join(t.TempDir(), "none"), "--create")
	if code != cli.ExitFailure || !strings.Contains(stderr, "opening the directory") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
