// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Running is a unit that was found alive. PID is that of its Init on the host.
type Running struct {
	Name string
	PID  int
	dir  string
}

// identity tells a process from a later one that got the same number.
type identity struct {
	PID int `json:"pid"`
	// StartTicks is the start time in clock ticks since boot (proc_pid_stat(5)).
	StartTicks uint64 `json:"startTicks"`
}

// Start starts a unit and returns once its Init has its process id recorded and
// its network link in place. Connect, when set, is called with Init's process id
// to give the unit its link; until it has returned, Init does nothing. When the
// caller is killed meanwhile, Init sees its pipe close and ends.
func Start(s Spec, connect func(pid int) error) (*Running, error) {
	if err := writeJSON(s.specFile(), s); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.LogDir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the log folder: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(s.LogDir, s.Name+"-init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()
	gate, open, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer gate.Close()
	defer open.Close()

	// No context: the unit outlives whoever starts it.
	cmd := exec.Command("/proc/self/exe", "unit-init", s.specFile()) //nolint:noctx // see above
	cmd.Args[0] = "sandbar-" + s.Name
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{gate}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if s.Machine != nil {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting unit %s: %w", s.Name, err)
	}
	// Collected in the background: Alive must not see a zombie as the unit.
	go func() { _ = cmd.Wait() }()
	return admit(s, cmd.Process.Pid, connect, open)
}

// admit records the new Init, connects it and lets it go.
func admit(s Spec, pid int, connect func(int) error, gate *os.File) (*Running, error) {
	ticks, _, err := stat(pid)
	if err != nil {
		return nil, fmt.Errorf("starting unit %s: %w", s.Name, err)
	}
	err = writeJSON(pidFile(s.Dir, s.Name), identity{pid, ticks})
	if err == nil && connect != nil {
		err = connect(pid)
	}
	if err == nil {
		_, err = gate.Write([]byte{1})
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return nil, fmt.Errorf("starting unit %s: %w", s.Name, err)
	}
	return &Running{s.Name, pid, s.Dir}, nil
}

// Same reports whether the unit was last started with this very spec.
func (s Spec) Same() bool {
	old, err := os.ReadFile(s.specFile())
	if err != nil {
		return false
	}
	now, err := encode(s)
	return err == nil && bytes.Equal(old, now)
}

// Find returns the unit when its Init is alive, nil when it is not.
func Find(dir, name string) (*Running, error) {
	var id identity
	err := readJSON(pidFile(dir, name), &id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if ticks, alive, err := stat(id.PID); err != nil || !alive || ticks != id.StartTicks {
		return nil, nil //nolint:nilerr // a process that cannot be looked at is gone
	}
	return &Running{name, id.PID, dir}, nil
}

// Recorded returns the names of all units that were started in a folder, also of
// what others have recorded there in the same form to have it end with the stack.
func Recorded(dir string) ([]string, error) {
	files, err := filepath.Glob(pidFile(dir, "*"))
	if err != nil {
		return nil, fmt.Errorf("listing units: %w", err)
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), filepath.Base(pidFile(dir, ""))))
	}
	return names, nil
}

// Alive reports whether the unit's Init still runs.
func (r *Running) Alive() bool {
	again, err := Find(r.dir, r.Name)
	return err == nil && again != nil && again.PID == r.PID
}

// Stop kills the unit and waits until the kernel has ended all of it.
func (r *Running) Stop(ctx context.Context) error {
	if err := unix.Kill(r.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing unit %s: %w", r.Name, err)
	}
	if err := Poll(ctx, func() bool { return !r.Alive() }); err != nil {
		return fmt.Errorf("waiting for the end of unit %s (process %d): %w", r.Name, r.PID, err)
	}
	return nil
}

// HostProcess is a process of a unit as the host sees it.
type HostProcess struct {
	ProcessStatus
	Name string `json:"name"`
	// HostPID is its process id on the host, 0 when it is not running.
	HostPID int `json:"hostPID"`
	// MemoryBytes is its resident memory.
	MemoryBytes int64 `json:"memoryBytes"`
}

// Processes returns the unit's processes by name. What was only recorded, without
// an Init of its own, is itself its one process.
func (r *Running) Processes() (map[string]HostProcess, error) {
	var status Status
	err := readJSON(statusFile(r.dir, r.Name), &status)
	if _, specErr := os.Stat(Spec{Dir: r.dir, Name: r.Name}.specFile()); errors.Is(specErr, fs.ErrNotExist) {
		return map[string]HostProcess{r.Name: {
			Name: r.Name, HostPID: r.PID, MemoryBytes: residentMemory(r.PID), ProcessStatus: ProcessStatus{Starts: 1},
		}}, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	children, err := childrenOf(r.PID)
	if err != nil {
		return nil, err
	}
	found := make(map[string]HostProcess, len(status.Processes))
	for name, p := range status.Processes {
		child := children[p.PID]
		found[name] = HostProcess{ProcessStatus: p, Name: name, HostPID: child.pid, MemoryBytes: child.rss}
	}
	return found, nil
}

// Restart kills one process of the unit and waits until Init has started the
// next one.
func (r *Running) Restart(ctx context.Context, name string) error {
	all, err := r.Processes()
	if err != nil {
		return err
	}
	before, ok := all[name]
	if !ok {
		return fmt.Errorf("unit %s has no process %q", r.Name, name)
	}
	if before.HostPID != 0 {
		if err := unix.Kill(before.HostPID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("killing %s: %w", name, err)
		}
	}
	err = Poll(ctx, func() bool {
		now, err := r.Processes()
		return err == nil && now[name].Starts > before.Starts && now[name].HostPID != 0
	})
	if err != nil {
		return fmt.Errorf("waiting for the restart of %s: %w", name, err)
	}
	return nil
}

type child struct {
	pid int
	rss int64
}

// childrenOf returns the children of a process by their id in their own PID
// namespace.
func childrenOf(parent int) (map[int]child, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	children := map[int]child{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue // it ended meanwhile
		}
		fields := statusFields(data)
		if fields["PPid"] != strconv.Itoa(parent) || strings.HasPrefix(fields["State"], "Z") {
			continue
		}
		ids := strings.Fields(fields["NSpid"])
		if len(ids) == 0 {
			continue
		}
		inside, _ := strconv.Atoi(ids[len(ids)-1])
		children[inside] = child{pid, rss(fields)}
	}
	return children, nil
}

// rss reads the resident memory from a status; a process without has none.
func rss(fields map[string]string) int64 {
	kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(fields["VmRSS"], " kB"), 10, 64)
	return kilobytes << 10
}

func residentMemory(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return rss(statusFields(data))
}

func statusFields(data []byte) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

// stat returns a process's start time, and whether it is more than a zombie. A process whose first thread is
// a zombie is more as long as another one lives: it is the last one that ends all else in a namespace.
func stat(pid int) (ticks uint64, alive bool, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, err
	}
	// The second field is the command's name in parentheses, with whatever
	// bytes it has: count fields from the last parenthesis on.
	_, rest, ok := bytes.Cut(data[max(0, bytes.LastIndexByte(data, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	const threadsField, startField = 17, 19 // fields 20 and 22, counted from the third
	if !ok || len(fields) <= startField {
		return 0, false, fmt.Errorf("/proc/%d/stat: unknown form", pid)
	}
	ticks, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	dead := fields[0][0] == 'Z' || fields[0][0] == 'X'
	return ticks, !dead || !bytes.Equal(fields[threadsField], []byte("1")), err
}

// pollInterval is how often the host looks at another process's state, for
// which the kernel has no event that crosses namespaces.
const pollInterval = 50 * time.Millisecond

// Poll waits until done holds or ctx ends.
func Poll(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
