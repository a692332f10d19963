// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/supervise"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// The environment that configures the runner. All of it is the runner's own: no
// variable that begins with envPrefix reaches the app.
const (
	envPrefix = "SANDBAR_"

	envWorkdir      = envPrefix + "WORKDIR"
	envVolume       = envPrefix + "VOLUME"
	envStartCommand = envPrefix + "START_COMMAND"
	envPort         = envPrefix + "PORT"
	envControlAddr  = envPrefix + "CONTROL_ADDR"
	envTokenFile    = envPrefix + "CONTROL_TOKEN_FILE"
	envToken        = envPrefix + "CONTROL_TOKEN"
	envPodUID       = controlproof.PodUIDVariable
	envLogBytes     = envPrefix + "LOG_BYTES"
	envStopGrace    = envPrefix + "STOP_GRACE"
	envSyncBytes    = envPrefix + "MAX_SYNC_BYTES"
	envSyncFiles    = envPrefix + "MAX_SYNC_FILES"
	envFileBytes    = envPrefix + "MAX_FILE_BYTES"
	envBatchBytes   = envPrefix + "MAX_BATCH_BYTES"
	envReloadRules  = envPrefix + "RELOAD_RULES"
	envTotalFiles   = envPrefix + "MAX_WORKSPACE_FILES"
	envTotalBytes   = envPrefix + "MAX_WORKSPACE_BYTES"
)

const (
	defaultWorkdir     = "/workspace"
	defaultPort        = 3000
	defaultControlAddr = ":7070"

	// defaultSyncBytes is the greatest body of one POST /sync of JSON.
	defaultSyncBytes = 32 << 20

	// maxTokenFile bounds what is read of the token file.
	maxTokenFile = 8 << 10

	// maxBytes bounds what an operator may set for sizes on disk: 1 PiB.
	maxBytes = 1 << 50

	// maxLogBytes bounds what an operator may set: the log is held in memory.
	maxLogBytes = 256 << 20

	// maxStopGrace bounds what an operator may set; the kubelet kills a pod 30 s after
	// its end began, unless the pod says otherwise.
	maxStopGrace = time.Minute
)

// Config is what a runner needs to know.
type Config struct {
	// Workdir is the workspace and the app's working directory. It is made if it
	// is missing.
	Workdir string
	// Volume is where the whole of the volume is mounted whose [workspace.TreeName] is mounted at Workdir. Then
	// what the runner writes lies beside the workspace; empty: it lies at the top of it.
	Volume string
	// StartCommand is run by /bin/sh -c; empty: nothing is started. It has to
	// stay in the foreground: when it ends, what it left behind is stopped.
	StartCommand string
	// Command is the app's program and its arguments, without a shell; StartCommand does not count then. It runs in
	// CommandDir, and its PORT stays as it is.
	Command    []string
	CommandDir string
	// Port is where the app listens; the app of a StartCommand gets it as PORT.
	Port int
	// ControlAddr is where the control contract is served.
	ControlAddr string
	// Tokens are those of which callers must have one.
	Tokens Tokens
	// PodUID is the UID of the pod, which proofs of having a token are bound to; empty: none are
	// taken, and callers send the token itself.
	PodUID string
	// LogBytes is the memory for the app's newest output.
	LogBytes int
	// StopGrace is the time between TERM and KILL.
	StopGrace time.Duration
	// SyncBytes bounds the body of one sync of JSON, which is held in memory in part;
	// Workspace bounds all batches.
	SyncBytes int64
	Workspace workspace.Limits
	// Reload says what follows a sync; empty: what the sync asks for.
	Reload []ReloadRule
	// ChildEnv is the app's whole environment.
	ChildEnv []string
	// Stdout and Stderr get what the app prints, as far as mirrorRate lets it; nil: nobody does.
	Stdout, Stderr io.Writer
	// Version is reported in /status.
	Version string
}

// ConfigFromEnv reads the configuration from environ, which has the form of
// [os.Environ]. It fails when a value is malformed, and always when there is no
// token: a runner without one would obey anybody. No error contains a value of
// the token.
func ConfigFromEnv(environ []string) (Config, error) {
	env := map[string]string{}
	c := Config{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case strings.HasPrefix(name, envPrefix):
			env[name] = value
		case name != "PORT":
			c.ChildEnv = append(c.ChildEnv, pair)
		}
	}
	limits := workspace.DefaultLimits()
	var errs [11]error
	var port, logBytes, syncFiles int64
	port, errs[0] = number(env, envPort, defaultPort, 1, math.MaxUint16)
	logBytes, errs[1] = number(env, envLogBytes, ringlog.DefaultCapacity, ringlog.MinCapacity, maxLogBytes)
	c.SyncBytes, errs[2] = number(env, envSyncBytes, defaultSyncBytes, 1, math.MaxInt32)
	syncFiles, errs[3] = number(env, envSyncFiles, int64(limits.Files), 1, math.MaxInt32)
	c.Workspace.FileBytes, errs[4] = number(env, envFileBytes, limits.FileBytes, 1, maxBytes)
	c.StopGrace, errs[5] = grace(env)
	c.Tokens, errs[6] = readTokens(env)
	c.Workspace.BatchBytes, errs[7] = number(env, envBatchBytes, limits.BatchBytes, 1, maxBytes)
	c.Workspace.TotalFiles, errs[8] = number(env, envTotalFiles, limits.TotalFiles, 1, math.MaxInt32)
	c.Workspace.TotalBytes, errs[9] = number(env, envTotalBytes, limits.TotalBytes, 1, maxBytes)
	c.Port, c.LogBytes, c.Workspace.Files = int(port), int(logBytes), int(syncFiles)
	c.Reload, errs[10] = parseReload(env[envReloadRules])
	c.PodUID = env[envPodUID]
	c.Workdir, c.Volume = text(env, envWorkdir, defaultWorkdir), env[envVolume]
	c.StartCommand = env[envStartCommand]
	c.ControlAddr = text(env, envControlAddr, defaultControlAddr)
	c.ChildEnv = append(c.ChildEnv, "PORT="+strconv.Itoa(c.Port))
	return c, errors.Join(errs[:]...)
}

func text(env map[string]string, name, fallback string) string {
	if value := env[name]; value != "" {
		return value
	}
	return fallback
}

// number reads an integer within [least, most].
func number(env map[string]string, name string, fallback, least, most int64) (int64, error) {
	value := env[name]
	if value == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s must be an integer from %d to %d", name, least, most)
	}
	return n, nil
}

func grace(env map[string]string) (time.Duration, error) {
	value := env[envStopGrace]
	if value == "" {
		return supervise.DefaultGrace, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 || d > maxStopGrace {
		return 0, fmt.Errorf("%s must be a duration above 0s and up to %s", envStopGrace, maxStopGrace)
	}
	return d, nil
}

// Supervising returns the configuration of a runner that stands before the program of an ordinary container: environ is the
// container's own environment, and dir the directory in which the program would have begun. The app's port is its PORT if
// SANDBAR_PORT says none. It fails as ConfigFromEnv does, and without
// a program that can be run.
func Supervising(environ, command []string, dir string) (Config, error) {
	if len(command) == 0 {
		return Config{}, errors.New("there is no program to supervise")
	}
	port, own := "", false
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		own = own || name == envPort && value != ""
		if name == "PORT" {
			port = value
		}
	}
	settings := environ
	if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 && !own {
		settings = append(slices.Clone(environ), envPort+"="+port)
	}
	c, err := ConfigFromEnv(settings)
	if err != nil {
		return c, err
	}
	program, err := exec.LookPath(command[0]) // as the container's own start would have
	if err != nil {
		return c, fmt.Errorf("the program cannot be run: %w", err)
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	c.Command, c.CommandDir = append([]string{program}, command[1:]...), dir
	c.ChildEnv = slices.DeleteFunc(slices.Clone(environ), func(pair string) bool { return strings.HasPrefix(pair, envPrefix) })
	return c, nil
}

// HealthURL returns the URL of /healthz as seen from inside the container, for
// the control address that environ configures.
func HealthURL(environ []string) (string, error) {
	addr := defaultControlAddr
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, envControlAddr+"="); ok && value != "" {
			addr = value
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", envControlAddr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + pathHealthz, nil
}
