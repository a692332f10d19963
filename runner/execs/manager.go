// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbar-dev/sandbar/runner/supervise"
)

const (
	// DefaultRunning is how many commands run at once unless told otherwise.
	DefaultRunning = 16
	// DefaultDetached is how long a command runs without a client unless told
	// otherwise.
	DefaultDetached = 5 * time.Minute
	// DefaultRetained is how long one that has ended is remembered unless told
	// otherwise.
	DefaultRetained = time.Minute

	// endGrace is the time between TERM and KILL for a command that is ended.
	endGrace = 2 * time.Second
)

// Options of a Manager.
type Options struct {
	Reaper *supervise.Reaper
	// Running bounds the commands that run at once, and those that are remembered
	// besides. Zero means [DefaultRunning].
	Running int
	// Detached is how long a command runs without a client; zero means
	// [DefaultDetached].
	Detached time.Duration
	// Retained is how long a command that has ended is remembered; zero means
	// [DefaultRetained].
	Retained time.Duration
	// Logger gets that commands were started and how they ended, and nothing of what
	// they are.
	Logger *slog.Logger
}

// Command is what to run.
type Command struct {
	// Args[0] is looked up in the PATH of Env.
	Args []string
	Env  []string
	Dir  string
	// Stdin keeps the input open for a client; without it the input is empty.
	Stdin bool
	// Terminal gives the command one, and makes one stream of both outputs.
	Terminal bool
	Size     Size
}

var (
	// ErrClosed means that the runner is ending.
	ErrClosed = errors.New("the runner is shutting down")
	// ErrNotFound means that no command has the ID, or that it is forgotten.
	ErrNotFound = errors.New("no command has this ID; one that has ended is remembered for a short time only")
)

// LimitError says that no more commands may run.
type LimitError struct{ Limit int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("%d commands run; that is the limit", e.Limit)
}

// What a shell exits with for a command that could not be started, and what programs exit with that
// run others and fail themselves (env, timeout).
const (
	CodeOurs        = 125
	CodeNotRunnable = 126
	CodeNotFound    = 127
)

// StartError says that a command could not be started. Code is one of the above.
type StartError struct {
	Err  error
	Code int
}

func (e *StartError) Error() string { return fmt.Sprintf("starting the command: %v", e.Err) }
func (e *StartError) Unwrap() error { return e.Err }

// Manager runs commands.
type Manager struct {
	options Options

	mu       sync.Mutex
	sessions map[string]*Session
	closed   bool
	ending   sync.WaitGroup
}

// New returns a Manager without commands.
func New(o Options) *Manager {
	if o.Running <= 0 {
		o.Running = DefaultRunning
	}
	if o.Detached <= 0 {
		o.Detached = DefaultDetached
	}
	if o.Retained <= 0 {
		o.Retained = DefaultRetained
	}
	return &Manager{options: o, sessions: map[string]*Session{}}
}

// Start starts a command. Its errors are a [*LimitError], a [*StartError] or
// [ErrClosed].
func (m *Manager) Start(c Command) (*Session, error) {
	// First, because to the kernel a directory and a program that are not there are one error.
	if _, err := os.Stat(cmp.Or(c.Dir, ".")); err != nil {
		return nil, &StartError{Err: fmt.Errorf("its directory: %w", err), Code: CodeOurs}
	}
	path, err := lookPath(c.Args[0], c.Env, c.Dir)
	if err != nil {
		return nil, &StartError{Err: err, Code: startCode(err)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	running := 0
	for _, s := range m.sessions {
		if !s.over() {
			running++
		}
	}
	if running >= m.options.Running {
		return nil, &LimitError{Limit: m.options.Running}
	}
	if len(m.sessions) >= 2*m.options.Running {
		m.forgetOldest()
	}
	asked := c.Args
	c.Args = append([]string{path}, c.Args[1:]...)
	s, err := startSession(m.options.Reaper, c)
	if err != nil {
		err = explain(path, err)
		return nil, &StartError{Err: err, Code: startCode(err)}
	}
	s.id, s.args = rand.Text(), asked
	s.expire = time.AfterFunc(m.options.Detached, s.End)
	s.detached = m.options.Detached
	m.sessions[s.id] = s
	m.options.Logger.Info("a command was started", "exec", s.id, "pid", s.child.PID())
	m.ending.Go(func() { m.watch(s) })
	return s, nil
}

// watch waits for the end of a command, and forgets it later.
func (m *Manager) watch(s *Session) {
	s.run()
	m.options.Logger.Info("a command ended", "exec", s.id, "code", s.exit.Code)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	s.forget = time.AfterFunc(m.options.Retained, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.sessions, s.id)
	})
}

// forgetOldest makes room among those that have ended. mu is held.
func (m *Manager) forgetOldest() {
	var oldest *Session
	for _, s := range m.sessions {
		if s.over() && (oldest == nil || s.began.Before(oldest.began)) {
			oldest = s
		}
	}
	if oldest != nil {
		delete(m.sessions, oldest.id)
	}
}

// Find returns the command with the ID, or [ErrNotFound].
func (m *Manager) Find(id string) (*Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.sessions[id]; ok {
		return s, nil
	}
	return nil, ErrNotFound
}

// Info is what is known of a command.
type Info struct {
	ID       string
	Args     []string
	Began    time.Time
	Terminal bool
	// Attached tells that it has a client.
	Attached bool
	// Exit is how it ended; nil while it runs.
	Exit *Exit
}

// List returns the commands that run or are remembered, the oldest first.
func (m *Manager) List() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Info, 0, len(m.sessions))
	for _, s := range m.sessions {
		list = append(list, s.info())
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.ID, b.ID)) })
	return list
}

// Running counts the commands that run.
func (m *Manager) Running() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.sessions {
		if !s.over() {
			n++
		}
	}
	return n
}

// Close ends all commands and waits for them.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	for _, s := range m.sessions {
		s.expire.Stop()
		if s.forget != nil {
			s.forget.Stop()
		}
		go s.End()
	}
	m.mu.Unlock()
	m.ending.Wait()
}

// lookPath finds a program as a shell would, in the command's own environment.
func lookPath(name string, env []string, dir string) (string, error) {
	if name == "" {
		return "", fs.ErrNotExist
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if err := executable(name); err != nil {
			return "", fmt.Errorf("%q: %w", name, bare(err))
		}
		return name, nil
	}
	var (
		path   string
		denied error
	)
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, "PATH="); ok {
			path = value
		}
	}
	for _, place := range filepath.SplitList(path) {
		if !filepath.IsAbs(place) {
			continue // what a project has in its directory is not what its PATH means
		}
		full := filepath.Join(place, name)
		err := executable(full)
		if err == nil {
			return full, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == nil {
			denied = fmt.Errorf("%q: %w", full, bare(err))
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%q is not in the PATH: %w", name, fs.ErrNotExist)
}

// bare is an error without the path, which is told before it.
func bare(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// startCode is what a shell exits with for a command that could not be started.
func startCode(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return CodeNotFound
	case slices.ContainsFunc(notRunnable, func(e unix.Errno) bool { return errors.Is(err, e) }):
		return CodeNotRunnable
	default:
		return CodeOurs
	}
}

// notRunnable are the kernel's errors that are about the program.
var notRunnable = []unix.Errno{unix.EACCES, unix.EPERM, unix.EISDIR, unix.ENOEXEC, unix.ENOTDIR, unix.ELOOP, unix.ETXTBSY, unix.E2BIG}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}
