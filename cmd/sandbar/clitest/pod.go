// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package clitest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/sandbar-dev/sandbar/pkg/wsconn"
)

// PodExec is the protocol of a pod's commands.
const PodExec = "v5.channel.k8s.io"

// PodVerb answers a verb as the data plane does where it is a pod's own.
func PodVerb(t *testing.T, protocol string, serve func(*http.Request, *wsconn.Conn)) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Protocol") != protocol {
			rw.Header().Set("Sec-Websocket-Protocol", protocol)
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, err := wsconn.Accept(rw, r, 1<<20, protocol)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		serve(r, conn)
	}
}

// Pod makes the world's sandbox a pod without a runner: its commands run here, in dir, with what is in
// bin as the programs of its image.
func (w *World) Pod(t *testing.T, dir, bin string) {
	t.Helper()
	w.Verbs = []string{"exec", "log"}
	w.Plane = PodVerb(t, PodExec, func(r *http.Request, conn *wsconn.Conn) {
		q := r.URL.Query()
		say := func(channel byte, p []byte) {
			_ = conn.Write(r.Context(), append([]byte{channel}, p...))
		}
		if c := q.Get("container"); c != "" && c != "main" {
			t.Errorf("the container is %q", c)
		}
		program := filepath.Join(bin, q["command"][0])
		if _, err := os.Stat(program); err != nil {
			say(3, []byte(`{"status":"Failure","message":"OCI runtime exec failed: exec: \"`+q["command"][0]+`\": executable file not found in $PATH"}`))
			_ = conn.Close(websocket.CloseNormalClosure, "")
			return
		}
		cmd := exec.CommandContext(r.Context(), program, q["command"][1:]...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin}
		var errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = writerTo(func(p []byte) { say(1, p) }), &errs
		if q.Get("stdin") == "true" {
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer in.Close()
				for {
					p, err := conn.Read(r.Context())
					if err != nil || p[0] != 0 {
						return
					}
					_, _ = in.Write(p[1:])
				}
			}()
		}
		err := cmd.Run()
		say(2, errs.Bytes())
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			say(3, []byte(`{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"`+strconv.Itoa(exit.ExitCode())+`"}]}}`))
		} else {
			say(3, []byte(`{"status":"Success"}`))
		}
		_ = conn.Close(websocket.CloseNormalClosure, "")
	})
}

type writerTo func([]byte)

func (w writerTo) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; rest = rest[min(len(rest), 64<<10):] {
		w(rest[:min(len(rest), 64<<10)])
	}
	return len(p), nil
}

// Programs makes a directory with some of this machine's.
func Programs(t *testing.T, names ...string) string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range names {
		at, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(at, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Sends makes a pod whose tar sends what it likes and exits with a code.
func (w *World) Sends(t *testing.T, archive []byte, code string) {
	t.Helper()
	bin := Programs(t, "cat", "sh")
	if err := os.WriteFile(filepath.Join(bin, "archive"), archive, 0o644); err != nil {
		t.Fatal(err)
	}
	script := "#!" + filepath.Join(bin, "sh") + "\ncat " + filepath.Join(bin, "archive") + "\necho 'tar: it \x1b[31mfailed' >&2\nexit " + code + "\n"
	if err := os.WriteFile(filepath.Join(bin, "tar"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w.Pod(t, t.TempDir(), bin)
}

// Archive is a tar file of headers, whose content is their PAX comment, or x for each byte.
func Archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		h.Mode |= 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, strings.NewReader(strings.Repeat("x", int(h.Size)))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
