// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package develop

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"testing"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// logs -f | head -1: head goes when it has its line, and the app may print nothing more for hours.
func TestLogsEndWhenTheirReaderHasGoneAndTheAppIsQuiet(t *testing.T) {
	w := newWorld(t)
	w.Serve(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", logwire.ContentType)
		rw.Header().Set(logwire.IDHeader, "a")
		_ = json.NewEncoder(rw).Encode(someLog[3])
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
	})
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	cmd := w.Program(t, "logs", "web", "-f")
	cmd.Stdout, cmd.Stderr = to, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = to.Close()
	if line, err := bufio.NewReader(from).ReadString('\n'); err != nil || line != "end\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_ = from.Close()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitBrokenPipe {
		t.Errorf("it ends with %v", err)
	}
}
