// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package state knows where a stack keeps what on disk and what it has decided
// (its slice of the network, its ports, its runtime), so that every command
// finds the same answers. It starts and stops nothing.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Runtime says what plays the runtime cluster.
type Runtime string

// The runtimes that a stack can have.
const (
	// RuntimeNode is the stack's own Kubernetes node in namespaces of its own.
	RuntimeNode Runtime = "node"
	// RuntimeExternal is any cluster with kro, given by RUNTIME_KUBECONFIG.
	RuntimeExternal Runtime = "external"
	// RuntimeKind is a kind cluster, where Docker is present.
	RuntimeKind Runtime = "kind"
)

// Stack is what a stack has decided, as kept in stack.json.
type Stack struct {
	Name    string  `json:"name"`
	Runtime Runtime `json:"runtime"`
	// Index is the slice of the address plan; -1 without an own node.
	Index int `json:"index"`
	// KCPPort and the etcd ports are loopback ports of the host.
	KCPPort        int `json:"kcpPort"`
	EtcdClientPort int `json:"etcdClientPort"`
	EtcdPeerPort   int `json:"etcdPeerPort"`
	// Bin is the folder with the tools for people (kubectl, ctr).
	Bin string `json:"bin"`
	// ForTests says that nobody keeps anything on the stack, and that it is the same on each machine.
	ForTests bool `json:"forTests,omitempty"`
}

// Dir is a stack's folder and everything below it.
type Dir string

// File is what the stack has decided.
func (d Dir) File() string { return filepath.Join(string(d), "stack.json") }

// Kubeconfig is the kubeconfig of a user.
func (d Dir) Kubeconfig(user string) string {
	return filepath.Join(string(d), "kubeconfig", user+".kubeconfig")
}

// Logs holds a file per process.
func (d Dir) Logs() string { return filepath.Join(string(d), "log") }

// Log is the log of a process.
func (d Dir) Log(process string) string { return filepath.Join(d.Logs(), process+".log") }

// Tokens is the file of kcp's users.
func (d Dir) Tokens() string { return filepath.Join(string(d), "tokens.csv") }

// PKI holds the certificates of the node's cluster.
func (d Dir) PKI() string { return filepath.Join(string(d), "pki") }

// Node holds what the node keeps on disk.
func (d Dir) Node() string { return filepath.Join(string(d), "node") }

// KCP holds what kcp keeps on disk.
func (d Dir) KCP() string { return filepath.Join(string(d), "kcp") }

// Volumes holds a folder per PersistentVolume.
func (d Dir) Volumes() string { return filepath.Join(string(d), "volumes") }

// Units holds what is known of the running units.
func (d Dir) Units() string { return filepath.Join(string(d), "units") }

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// hidden lists the folders that the node's mounts cover. A state folder below
// one of them would vanish from the node's sight.
var hidden = []string{"/run", "/var/run", "/var/lib", "/var/log", "/proc", "/sys", "/dev"}

// DirFor returns the folder of the stack with that name. Root is the folder of
// all stacks; when empty, SANDBAR_STATE, XDG_STATE_HOME or ~/.local/state decide.
func DirFor(root, name string) (Dir, error) {
	if !validName.MatchString(name) {
		return "", fmt.Errorf("stack name %q: want up to 32 lower-case letters, digits and dashes", name)
	}
	if root == "" {
		root = os.Getenv("SANDBAR_STATE")
	}
	if root == "" {
		base, err := xdg("XDG_STATE_HOME", ".local/state")
		if err != nil {
			return "", err
		}
		root = base
	}
	root, err := filepath.Abs(filepath.Join(root, "sandbar"))
	if err != nil {
		return "", fmt.Errorf("finding the state folder: %w", err)
	}
	for _, h := range hidden {
		if root == h || strings.HasPrefix(root, h+"/") {
			return "", fmt.Errorf("state folder %s: the node mounts its own %s; choose another folder", root, h)
		}
	}
	return Dir(filepath.Join(root, name)), nil
}

// CacheDir returns the folder for what is built once and shared by all stacks.
func CacheDir() (string, error) {
	root := os.Getenv("SANDBAR_CACHE")
	if root == "" {
		base, err := xdg("XDG_CACHE_HOME", ".cache")
		if err != nil {
			return "", err
		}
		root = base
	}
	return filepath.Abs(filepath.Join(root, "sandbar"))
}

func xdg(variable, fallback string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the home folder: %w", err)
	}
	return filepath.Join(home, fallback), nil
}

// Load reads what the stack has decided. A stack that was never started gives
// an error that is fs.ErrNotExist.
func (d Dir) Load() (*Stack, error) {
	data, err := os.ReadFile(d.File())
	if err != nil {
		return nil, fmt.Errorf("reading the stack's state: %w", err)
	}
	var s Stack
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", d.File(), err)
	}
	if s.Index < -1 || s.Index >= MaxStacks {
		return nil, fmt.Errorf("reading %s: index %d is outside 0…%d", d.File(), s.Index, MaxStacks-1)
	}
	return &s, nil
}

// Save writes what the stack has decided, in one step: a reader or a kill in
// between never sees half a file.
func (d Dir) Save(s *Stack) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the stack's state: %w", err)
	}
	return WriteFile(d.File(), append(data, '\n'), 0o600)
}

// Exists reports whether anything of the stack is on disk.
func (d Dir) Exists() bool {
	_, err := os.Lstat(string(d))
	return !errors.Is(err, fs.ErrNotExist)
}

// WriteFile writes a file and its folders in one step, by renaming a finished
// file into place.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // renamed by then when all went well
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
