// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/runner/execs"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/supervise"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const (
	// shell runs the start command.
	shell = "/bin/sh"

	workdirMode = 0o755

	// finishTimeout bounds the end of the requests that are in flight once the app
	// is stopped; then their connections are closed.
	finishTimeout = 2 * time.Second
)

// Run serves the control contract and keeps the app running until ctx ends. It
// then takes no more connections, stops the app, lets log follows send what the
// app said at its end, and returns nil. It returns an error when the runner cannot
// begin or cannot serve.
//
// It reaps every child of the process, so nothing else may start one meanwhile.
func Run(ctx context.Context, config Config, logger *slog.Logger) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", config.ControlAddr)
	if err != nil {
		return fmt.Errorf("listening for control requests: %w", err)
	}
	defer listener.Close()
	return run(ctx, config, logger, listener)
}

func run(ctx context.Context, config Config, logger *slog.Logger, listener net.Listener) error {
	files, err := openWorkspace(config, logger)
	if err != nil {
		return err
	}
	defer files.Close()
	reaper, err := supervise.NewReaper()
	if err != nil {
		return err
	}
	defer reaper.Close()

	variables, err := loadVariables(files)
	if err != nil {
		return err
	}
	commands := execs.New(execs.Options{Reaper: reaper, Logger: logger})
	ring, err := openLog(files, config.LogBytes, logger)
	if err != nil {
		return err
	}
	defer ring.Close()
	environment := func() []string { return variables.over(config.ChildEnv) }
	drainApp := drainInto(ring, logger)
	var supervisor *supervise.Supervisor
	listens := newPortTeller(config.Port, func() ([]netip.AddrPort, error) { return supervisor.Listening() }, ring)
	supervisor = supervise.New(reaper, supervise.Options{
		Args: command(config), Dir: cmp.Or(config.CommandDir, config.Workdir), Env: environment,
		Grace: config.StopGrace, Drain: listens.beside(ctx, drainApp), Logger: logger,
		LastLines: func() []string { return lastLines(ring) },
		Hint:      func(code int) string { return scriptHint(code, config.StartCommand, config.Workdir) },
	})
	reloads := newReloader(config.Reload,
		shellRunner(reaper, config.Workdir, environment, func(pipe *os.File, fd int) { drainApp(pipe, fd, supervisor.Status().Attempt) }),
		func(ctx context.Context) error {
			_, err := supervisor.Restart(ctx)
			return err
		})
	draining, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	serving := newServer(server{
		config: config, logger: logger, workspace: files, ring: ring,
		supervisor: supervisor, execs: commands, variables: variables, reloader: reloads, draining: draining,
	}).httpServer()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	supervised := make(chan struct{})
	mirrored := mirrorUntil(supervised, ring, config, logger) // before the app prints its first line
	go func() {
		defer close(supervised)
		supervisor.Run(ctx)
	}()
	served := make(chan error, 1)
	go func() {
		err := serving.Serve(listener)
		cancel() // a runner that cannot be reached is of no use
		served <- err
	}()
	logger.Info("the runner serves", "address", listener.Addr().String(), "version", config.Version)

	<-ctx.Done()
	logger.Info("the runner shuts down")
	// Shutdown closes the listener at once and then waits, so it runs beside the
	// stopping of the app.
	finished := make(chan struct{})
	finishing, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	go func() {
		defer close(finished)
		_ = serving.Shutdown(finishing)
	}()
	commands.Close()
	reloads.Close()
	<-supervised
	drain()
	late := time.AfterFunc(finishTimeout, giveUp)
	defer late.Stop()
	<-finished
	_ = serving.Close()
	select {
	case <-mirrored:
	case <-time.After(finishTimeout): // nobody takes the container's output
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving control requests: %w", err)
	}
	return nil
}

// openWorkspace opens the workspace, finishes what an earlier runner left, and says so.
func openWorkspace(config Config, logger *slog.Logger) (files *workspace.Workspace, err error) {
	if config.Volume == "" {
		if err := os.MkdirAll(config.Workdir, workdirMode); err != nil {
			return nil, fmt.Errorf("making the workspace: %w", err)
		}
		if files, err = workspace.Open(config.Workdir, config.Workspace); errors.Is(err, workspace.ErrInVolume) {
			err = fmt.Errorf("%w; mount that directory at %s, all of the volume at another path, and name that path in %s", err, config.Workdir, envVolume)
		}
	} else {
		files, err = openVolume(config)
	}
	if err != nil {
		return nil, err
	}
	r := files.Recovered()
	if r.Moved > 0 {
		logger.Info("the workspace was moved to a directory of its volume", "directory", workspace.TreeName, "names", r.Moved)
	}
	if r.Applied || r.Undone {
		logger.Warn("a batch that an earlier runner left was finished", "applied", r.Applied, "undone", r.Undone, "remaining", len(r.Remain))
	}
	return files, nil
}

func openVolume(config Config) (*workspace.Workspace, error) {
	files, err := workspace.OpenVolume(config.Volume, config.Workspace)
	if err != nil {
		return nil, err
	}
	// Else the app would work in one directory, and be synced to another.
	if is, err := files.IsTree(config.Workdir); err != nil || !is {
		files.Close()
		return nil, errors.Join(err, fmt.Errorf("%s (%s) must be %s of the volume %s (%s): mount it there by subPath",
			envWorkdir, config.Workdir, workspace.TreeName, config.Volume, envVolume))
	}
	return files, nil
}

// command returns the arguments of the app; none for none.
func command(config Config) []string {
	switch {
	case len(config.Command) > 0:
		return config.Command
	case config.StartCommand == "":
		return nil
	}
	return []string{shell, "-c", config.StartCommand}
}

// Shells exit with these codes when a command cannot be run, and is not found (POSIX, 2.8.2).
const (
	codeCannotRun = 126
	codeNotFound  = 127
)

// scriptHint explains a start command whose shell says that a script is not found which is there: the interpreter that
// the script's first line names is not. It looks at each word of the command.
func scriptHint(code int, command, dir string) string {
	if code != codeCannotRun && code != codeNotFound {
		return ""
	}
	for word := range strings.FieldsFuncSeq(command, func(r rune) bool { return strings.ContainsRune(" \t\n;&|()\"'", r) }) {
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		if err := execs.CheckScript(word); err != nil {
			return err.Error()
		}
	}
	return ""
}

// openLog returns the log of the app, which goes on where an earlier runner's ended.
func openLog(files *workspace.Workspace, capacity int, logger *slog.Logger) (*ringlog.Ring, error) {
	var segments [2]*os.File
	for i, name := range []string{"log-0", "log-1"} {
		f, err := files.OpenState(name)
		if err != nil {
			return nil, err
		}
		segments[i] = f
	}
	return ringlog.Open(capacity, segments, func(err error) {
		logger.Warn("the log is kept in memory only from now on", "error", err)
	}), nil
}

const (
	// lastLinesMost and lastLineBytes bound what is told of the output of an app that
	// does not stay up.
	lastLinesMost = 5
	lastLineBytes = 200
)

// lastLines returns the last lines of the app's output that say something.
func lastLines(ring *ringlog.Ring) []string {
	const streams = ringlog.Stdout | ringlog.Stderr
	reader := ring.Reader(ring.Tail(2*lastLinesMost, streams), streams)
	var text []byte
	var batch ringlog.Batch
	for _, end := ring.Bounds(); reader.Offset() < end && reader.Fill(&batch, end); {
		for _, entry := range batch.Entries {
			text = append(text, entry.Data...)
		}
	}
	var lines []string
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(bytes.ToValidUTF8(line[:min(len(line), lastLineBytes)], nil))
		if len(line) > 0 {
			lines = append(lines, string(line))
		}
	}
	return lines[max(0, len(lines)-lastLinesMost):]
}

// drainInto returns the function that moves the app's output into the ring.
func drainInto(ring *ringlog.Ring, logger *slog.Logger) func(*os.File, int, uint32) {
	return func(pipe *os.File, fd int, attempt uint32) {
		source := ringlog.Source{Stream: ringlog.Stdout, Attempt: attempt}
		if fd == 2 {
			source.Stream = ringlog.Stderr
		}
		if err := ring.Drain(source, pipe); err != nil {
			logger.Error("the app's output cannot be read any more", "stream", source.Stream, "error", err)
		}
	}
}
