// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package execwire

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// messages are the golden files of testdata, and what they mean.
func messages() map[string]any {
	code := 7
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	success, exit, signal := NewStatus(0, ""), NewStatus(7, ""), NewStatus(137, "SIGKILL")
	notFound, busy := NewRefusal("CommandNotStarted", "starting the command: \"x\" is not in the PATH: file does not exist", 127), NewRefusal("TooManyCommands", "16 commands run; that is the limit", 0)
	return map[string]any{
		"session.json":            &Session{ID: "c-1", Offset: 12},
		"session-gap.json":        &Session{ID: "c-1", Gap: 4096},
		"size.json":               &Size{Width: 132, Height: 43},
		"signal.json":             &Signal{Signal: "SIGINT"},
		"status-success.json":     &success,
		"status-exit.json":        &exit,
		"status-signal.json":      &signal,
		"status-refused.json":     &notFound,
		"status-refused-few.json": &busy,
		"start.json":              &Start{Args: []string{"sh", "-c", "echo \"$1\" é\n", "sh", ""}, Dir: "sub", Stdin: true, TTY: true, Rows: 43, Columns: 132},
		"start-least.json":        &Start{Args: []string{"true"}},
		"list.json": &List{Commands: []Command{
			{ID: "c-1", Args: []string{"sh", "-c", "exit 7"}, Start: start, ExitCode: &code},
			{ID: "c-2", Args: []string{"bash"}, Start: start.Add(time.Minute), TTY: true, Attached: true},
		}},
		"list-empty.json": &List{Commands: []Command{}},
	}
}

// A client or a runner of another version reads and writes these bytes.
func TestMessagesAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, want := range messages() {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(string(text), "\n")
			line, err := json.Marshal(want)
			if diff := cmp.Diff(golden, string(line)); err != nil || diff != "" {
				t.Errorf("written (-golden +got), %v:\n%s", err, diff)
			}
			got := reflect.New(reflect.TypeOf(want).Elem()).Interface()
			err = json.Unmarshal(text, got)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("read (-want +got), %v:\n%s", err, diff)
			}
		})
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) != len(messages())+1 {
		t.Errorf("testdata has %v, %v: each file needs a message here, except names.json", files, err)
	}
}

func TestNumbersAndNamesAreThoseOfTheGoldenFile(t *testing.T) {
	got := map[string]any{
		"protocols":    map[string]any{"runner": Protocol, "pod": PodProtocol},
		"closeCodes":   map[string]any{"replaced": CloseReplaced},
		"codes":        map[string]any{"notFound": CodeNotFound},
		"maxInputSize": MaxInputBytes, "maxCommandSize": MaxCommandBytes,
		"capabilities": map[string]any{"message": CapabilityMessage},
		"channels": map[string]any{
			"stdin": ChannelStdin, "stdout": ChannelStdout, "stderr": ChannelStderr, "status": ChannelStatus,
			"resize": ChannelResize, "session": ChannelSession, "signal": ChannelSignal, "command": ChannelCommand, "close": ChannelClose,
		},
		"parameters": []any{
			ParamCommand, ParamDir, ParamStdin, ParamTTY, ParamRows, ParamColumns, ParamID, ParamOffset, ParamObserve, ParamMessage,
		},
	}
	golden, err := os.ReadFile("testdata/names.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if diff := cmp.Diff(string(golden), string(text)+"\n"); err != nil || diff != "" {
		t.Errorf("names (-golden +got), %v:\n%s", err, diff)
	}
}

func TestTheExitCodeOfAStatus(t *testing.T) {
	for text, want := range map[string]int{
		`{"status":"Success"}`: 0,
		`{"metadata":{},"status":"Failure","details":{"causes":[{"reason":"Other","message":"3"},{"reason":"ExitCode","message":"7"}]}}`: 7,
		`{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"none"}]}}`:                                             -1,
		`{"status":"Failure","details":{}}`:                              -1,
		`{"status":"Failure","message":"exec: no such file","code":500}`: -1,
	} {
		var s Status
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		code, ok := s.ExitCode()
		if !ok {
			code = -1
		}
		if code != want {
			t.Errorf("%s is %d, want %d", text, code, want)
		}
	}
}
