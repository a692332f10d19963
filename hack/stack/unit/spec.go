// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package unit runs a group of processes as one: in a PID namespace whose first
// process starts them, reaps what they orphan, restarts what exits, and whose
// death the kernel turns into the death of every process below it. Killing one
// process therefore stops a unit at once and completely, whatever its processes
// have forked.
//
// The package knows nothing of Kubernetes: what a unit runs, mounts and is
// connected to is in its Spec. Start, Find, Stop and Restart are for the host;
// Init is the first process of the unit.
package unit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// Spec says what a unit is.
type Spec struct {
	// Name names the unit's files below Dir.
	Name string `json:"name"`
	// Dir holds the unit's spec, process id and status.
	Dir string `json:"dir"`
	// LogDir receives one file per process, named for it, and one for Init.
	LogDir string `json:"logDir"`
	// Machine, when set, gives the unit a machine of its own: network, mounts,
	// host name and IPC. Without it the unit shares the host's.
	Machine *Machine `json:"machine,omitempty"`
	// Namespaces are files that stand for namespaces of other processes while the unit runs: by the file's
	// path, what of /proc it stands for, as the host sees it.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	// Config stands for the content of the configuration files that the processes
	// read: a unit whose files have changed is another unit.
	Config string `json:"config,omitempty"`
	// Processes are started in parallel, each once what it waits for answers.
	Processes []Process `json:"processes"`
}

// Machine is what a unit with a machine of its own looks like inside.
type Machine struct {
	Hostname string `json:"hostname"`
	// Binds covers a folder of the host (the key) by another (the value).
	Binds map[string]string `json:"binds"`
	// Tmpfs are folders that begin empty whenever the unit starts.
	Tmpfs []string `json:"tmpfs"`
	// Sysctls are written below /proc/sys, by path.
	Sysctls map[string]string `json:"sysctls"`
	// Link is the name under which the host's caller of Start has put the
	// unit's network link into its namespace; inside it becomes eth0.
	Link string `json:"link"`
	// Address is eth0's address with its subnet. There is no default route:
	// nothing leaves the machine.
	Address string `json:"address"`
}

// Process is one program of a unit.
type Process struct {
	Name string `json:"name"`
	// Args begin with the absolute path of the program.
	Args []string `json:"args"`
	// Env is its whole environment, besides HOME: nothing of the person's own
	// (proxies, credentials) reaches a unit.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
	// After lists addresses ("tcp:127.0.0.1:2379", "unix:/run/x.sock") that
	// must accept a connection, and URLs ("https://127.0.0.1:6443/readyz") that
	// must answer 200, before the process is started.
	After []string `json:"after,omitempty"`
}

// LessCollection has a server of a stack for tests collect garbage when its heap is five times what lives, and not
// twice: on two cores, which are all that limits the end-to-end tests, kcp and the API servers spend a sixth of their
// time on it. Near 4 GiB it collects as often as it must.
var LessCollection = []string{"GOGC=400", "GOMEMLIMIT=4GiB"}

// Status is what a unit's Init records of its processes.
type Status struct {
	Processes map[string]ProcessStatus `json:"processes"`
}

// ProcessStatus is the state of one process.
type ProcessStatus struct {
	// PID is the process id inside the unit; 0 while it is not running.
	PID int `json:"pid"`
	// Starts counts how often it has been started.
	Starts   int       `json:"starts"`
	Started  time.Time `json:"started,omitzero"`
	LastExit string    `json:"lastExit,omitempty"`
}

func (s Spec) specFile() string    { return filepath.Join(s.Dir, s.Name+".spec.json") }
func pidFile(dir, n string) string { return filepath.Join(dir, n+".pid.json") }
func statusFile(dir, n string) string {
	return filepath.Join(dir, n+".status.json")
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	data, err := encode(value)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	return state.WriteFile(path, data, 0o600)
}

// encode is one and the same text for one value: maps are sorted by key.
func encode(value any) ([]byte, error) { return json.MarshalIndent(value, "", "  ") }
