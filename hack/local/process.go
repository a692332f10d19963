// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// identity tells a process from a later one with the same number. The form is that of
// hack/stack/unit, so that stack down ends the provider too.
type identity struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"startTicks"`
}

func (s *Stack) identityFile(name string) string {
	return filepath.Join(s.Dir, "units", name+".pid.json")
}

func writeIdentity(path string, pid int) error {
	ticks, err := startTicks(pid)
	if err != nil {
		return fmt.Errorf("recording the provider's process: %w", err)
	}
	data, err := json.Marshal(identity{PID: pid, StartTicks: ticks})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// stop ends a process of the stack if it runs: it is asked first and killed when it does not drain in time.
func (s *Stack) stop(name string) error {
	file := s.identityFile(name)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the process of %s: %w", name, err)
	}
	var id identity
	if err := json.Unmarshal(data, &id); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	for i, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if !id.alive() {
			break
		}
		if err := syscall.Kill(id.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending %s (process %d): %w", name, id.PID, err)
		}
		for end := time.Now().Add([]time.Duration{15 * time.Second, 5 * time.Second}[i]); id.alive() && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond) // another's child has no event to wait for
		}
	}
	return os.Remove(file)
}

// Stop ends the provider.
func (p *Provider) Stop() error { return p.Stack.stop(p.unit()) }

func (id identity) alive() bool {
	ticks, err := startTicks(id.PID)
	return err == nil && ticks == id.StartTicks
}

// startTicks is the 22nd field of /proc/PID/stat (proc_pid_stat(5)). A zombie counts as gone, but not one of
// which a thread still lives (the 20th field): that has the process's ports.
func startTicks(pid int) (uint64, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The command's name, in parentheses, may hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" && fields[17] == "1" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// process is a process that this one started.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	// record is the file that names it to the stack.
	record string
}

// stop asks the process to end and returns when it is gone, and no part of the stack any more: a
// part that is recorded and does not run is a fault.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	return os.Remove(p.record)
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.exited
	return nil
}
