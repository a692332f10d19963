// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/top"
)

// anyShell begins bash where the image has it, and else its sh.
const anyShell = "command -v bash >/dev/null 2>&1 && exec bash; exec sh"

// maxLastWords bounds what is kept of what a program says on stderr.
const maxLastWords = 4 << 10

// shellArgs are the arguments of this program that give the terminal a shell in a sandbox.
func (s *target) shellArgs(row top.Row) []string {
	args := []string{"exec", row.Name, "-it", "--resource", row.Resource, "--namespace", row.Namespace}
	for flag, value := range map[string]string{
		"--kubeconfig": s.Kubeconfig, "--trust-file": s.TrustFile,
		"--context": s.Overrides.CurrentContext, "--server": s.Overrides.ClusterInfo.Server, "--workspace": s.InPath,
	} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	return append(args, "--", "sh", "-c", anyShell)
}

// shellProgram is this program with other arguments, as the view of sandbar top runs it. It implements tea.ExecCommand.
type shellProgram struct {
	cmd  *exec.Cmd
	err  error
	last lastWords
}

func newShellProgram(ctx context.Context, args []string) *shellProgram {
	path, err := os.Executable()
	return &shellProgram{cmd: exec.CommandContext(ctx, path, args...), err: err}
}

// SetStdin implements tea.ExecCommand.
func (p *shellProgram) SetStdin(r io.Reader) { p.cmd.Stdin = r }

// SetStdout implements tea.ExecCommand.
func (p *shellProgram) SetStdout(w io.Writer) { p.cmd.Stdout = w }

// SetStderr implements tea.ExecCommand. What goes there is kept too: the view is drawn over it at once.
func (p *shellProgram) SetStderr(w io.Writer) { p.last.out, p.cmd.Stderr = w, &p.last }

// Run implements tea.ExecCommand. A shell that ends with the exit code of its last command has not failed.
func (p *shellProgram) Run() error {
	if p.err != nil {
		return fmt.Errorf("finding this program: %w", p.err)
	}
	err := p.cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if text, ok := strings.CutPrefix(p.last.line(), "sandbar: "); ok {
		return errors.New(text)
	}
	return nil
}

// lastWords passes on what a program says, and keeps the end of it.
type lastWords struct {
	out  io.Writer
	text []byte
}

// Write implements io.Writer.
func (l *lastWords) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-maxLastWords):]
	return l.out.Write(p)
}

// line is the last line.
func (l *lastWords) line() string {
	lines := strings.Split(strings.TrimSpace(string(l.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
