// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sandbar-dev/sandbar/bench/stage"
)

// subject carries what is saved in one directory into another.
type subject struct {
	name                string
	source, destination string
	// start begins a session and returns when both sides are alike; it returns the processes
	// that the session has. carry carries one path that was saved, for a subject that does not
	// watch. One of both is nil.
	start func(context.Context, *subject) (*running, error)
	carry func(ctx context.Context, path string) error
}

// running is a session.
type running struct {
	pids []int // the first is the one that sends
	stop func() error
}

// begin starts the session, if the subject has one.
func (s *subject) begin(ctx context.Context) (*running, error) {
	if s.start == nil {
		return &running{stop: func() error { return nil }}, nil
	}
	r, err := s.start(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.name, err)
	}
	return r, nil
}

// startTimeout bounds the first sync of a session.
const startTimeout = 3 * time.Minute

// session starts a program and returns when it has printed a line that ready takes.
func session(ctx context.Context, cmd *exec.Cmd, ready func(line []byte) bool) (*running, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe() // its end ends mutagen
	if err != nil {
		return nil, err
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if first && ready(lines.Bytes()) {
				close(began)
				first = false
			}
		}
		ended <- cmd.Wait()
	}()
	r := &running{pids: []int{cmd.Process.Pid}, stop: func() error {
		_ = in.Close()
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-ended
		return nil // it was interrupted
	}}
	select {
	case <-began:
		return r, nil
	case err := <-ended:
		return nil, fmt.Errorf("it ended: %w: %s", errors.Join(err, io.EOF), complaints.String())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), r.stop())
	case <-time.After(startTimeout):
		return nil, errors.Join(fmt.Errorf("it is not in sync after %v: %s", startTimeout, complaints.String()), r.stop())
	}
}

// sandbar is what a person uses: the command line, in front of the provider's data plane.
func sandbar(p *stage.Person, runner *stage.Runner) func(context.Context, *subject) (*running, error) {
	return func(ctx context.Context, s *subject) (*running, error) {
		cmd := exec.CommandContext(ctx, p.Program, "dev", "bench", s.source, "-o", "json")
		cmd.Env = p.Env
		r, err := session(ctx, cmd, func(line []byte) bool {
			var l struct{ Sync struct{ Type string } }
			return json.Unmarshal(line, &l) == nil && l.Sync.Type == "settled"
		})
		if err != nil {
			return nil, err
		}
		r.pids = append(r.pids, runner.PID)
		return r, nil
	}
}

// mutagen is a session of mutagen in a watch mode, with an agent on this machine over loopback.
func mutagen(program, home, watch string) func(context.Context, *subject) (*running, error) {
	return func(ctx context.Context, s *subject) (*running, error) {
		// Without what it knew: a session that is left halts when it is found again.
		data := filepath.Join(home, s.name+"-data")
		if err := os.RemoveAll(data); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, program, "-source", s.source, "-destination", s.destination, "-watch", watch)
		cmd.Env = append(os.Environ(), "MUTAGEN_DATA_DIRECTORY="+data)
		agent := 0
		r, err := session(ctx, cmd, func(line []byte) bool {
			if pid, ok := strings.CutPrefix(string(line), "agent "); ok {
				_, _ = fmt.Sscan(pid, &agent)
			}
			_, err := os.Lstat(filepath.Join(s.destination, path(0)))
			return err == nil && string(line) == "watching"
		})
		if err != nil {
			return nil, err
		}
		r.pids = append(r.pids, agent)
		return r, nil
	}
}

// throughTar is what kubectl cp does for each path: an archive into tar, by the exec of the pod.
func throughTar(s *stage.Stage, runner *stage.Runner, source, into string) (func(context.Context, string) error, error) {
	config := s.Stack.Runtime()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.Namespace).Name(runner.Pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: runner.Container, Command: []string{"tar", "-xmf", "-", "-C", into}, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	return func(ctx context.Context, path string) error {
		var archive, said bytes.Buffer
		if err := pack(&archive, source, path); err != nil {
			return err
		}
		exec, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
		if err != nil {
			return err
		}
		if err := exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: &archive, Stdout: &said, Stderr: &said}); err != nil {
			return fmt.Errorf("tar in the pod: %w: %s", err, said.String())
		}
		return nil
	}, nil
}

// pack writes a file, or a directory with all in it, as an archive.
func pack(out io.Writer, dir, path string) error {
	archive := tar.NewWriter(out)
	err := filepath.WalkDir(filepath.Join(dir, path), func(full string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(full)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, full)
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close())
}
