// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// narrator shows what is done: chapters, commands as a person would type them, what they print.
type narrator struct {
	out      io.Writer
	terminal bool
	chapters int
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (n *narrator) style(code, text string) string {
	if !n.terminal {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (n *narrator) chapter(title string) {
	n.chapters++
	fmt.Fprintf(n.out, "\n%s\n", n.style("1;36", fmt.Sprintf("%d. %s", n.chapters, title)))
}

func (n *narrator) note(format string, args ...any) {
	fmt.Fprintf(n.out, "  # %s\n", fmt.Sprintf(format, args...))
}

func (n *narrator) command(text string) {
	for i, line := range strings.Split(text, "\n") {
		prompt := "  $ "
		if i > 0 {
			prompt = "    "
		}
		fmt.Fprintln(n.out, prompt+n.style("1", line))
	}
}

// Write shows lines of what goes on.
func (n *narrator) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		fmt.Fprintf(n.out, "  … %s\n", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

// shell runs commands as a person would, in one folder with one environment.
type shell struct {
	say *narrator
	dir string
	env []string
}

// run shows a command, runs it and shows what it prints; the error holds that too.
func (s *shell) run(ctx context.Context, command string) error {
	_, err := s.output(ctx, command)
	return err
}

// output is run, and returns what the command printed to standard output.
func (s *shell) output(ctx context.Context, command string) (string, error) {
	s.say.command(command)
	return s.try(ctx, command)
}

// insist is run, and tries again for a while without a word: a workspace, a new API and an app
// that starts serve a moment after they are said to be there.
func (s *shell) insist(ctx context.Context, command string) error {
	return s.insistFor(ctx, 30*time.Second, command)
}

// insistFor is insist for a command that may take some time.
func (s *shell) insistFor(ctx context.Context, limit time.Duration, command string) error {
	s.say.command(command)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, err := s.try(ctx, command)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

func (s *shell) try(ctx context.Context, command string) (string, error) {
	cmd := s.cmd(ctx, command)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", command, err, out, complaints.String())
	}
	s.show(string(out))
	return strings.TrimSpace(string(out)), nil
}

func (s *shell) cmd(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = s.dir, s.env
	// A pipeline is ended as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return cmd
}

func (s *shell) show(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Fprintf(s.say.out, "    %s\n", strings.TrimRight(line, "\n"))
	}
}

// follow shows a command and runs it in the background, line by line to the channel, until stop
// is called.
func (s *shell) follow(ctx context.Context, command string) (lines <-chan string, stop func(), err error) {
	s.say.command(command + " &")
	ctx, cancel := context.WithCancel(ctx)
	cmd := s.cmd(ctx, command)
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, fmt.Errorf("%s: %w", command, err)
	}
	ch := make(chan string, 256)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(ch)
		scanner := bufio.NewScanner(pipe)
		for scanner.Scan() {
			ch <- scanner.Text()
		}
		_ = cmd.Wait() // it ends by our signal
	}()
	return ch, func() { cancel(); <-done }, nil
}
