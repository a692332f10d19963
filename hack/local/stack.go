// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package local runs the provider on the local stack, the way an operator would: init with the
// administrators' kubeconfigs, then the provider with the narrow ones that init wrote. The
// demo, the end-to-end tests and the benchmarks use it. It is for one machine and for
// development; it knows where hack/stack keeps its state.
package local

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Stack is a running local stack.
type Stack struct {
	// Name is the stack's name, for example "dev".
	Name string
	// Dir is its state folder.
	Dir string

	root   string            // the checkout
	tokens map[string]string // user to token
}

// Find finds a running stack by name. The error says how to start one.
func Find(ctx context.Context, name string) (*Stack, error) {
	dir, err := stateDir(name)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "stack.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("stack %q does not run: make up STACK=%s starts it", name, name)
	}
	root, err := checkout(ctx)
	if err != nil {
		return nil, err
	}
	s := &Stack{Name: name, Dir: dir, root: root}
	return s, s.loadTokens()
}

// stateDir follows the rule of hack/stack/state.
func stateDir(name string) (string, error) {
	base := os.Getenv("SANDBAR_STATE")
	if base == "" {
		base = os.Getenv("XDG_STATE_HOME")
	}
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the home folder: %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Abs(filepath.Join(base, "sandbar", name))
}

// checkout finds the folder of the root go.mod.
func checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func (s *Stack) loadTokens() error {
	f, err := os.Open(filepath.Join(s.Dir, "tokens.csv"))
	if err != nil {
		return fmt.Errorf("reading the users' tokens: %w", err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return fmt.Errorf("reading the users' tokens: %w", err)
	}
	s.tokens = map[string]string{}
	for _, row := range rows {
		if len(row) >= 2 {
			s.tokens[row[1]] = row[0]
		}
	}
	return nil
}

// Kubeconfig is the path of one of the stack's kubeconfigs: kcp-admin, runtime-admin, or a
// person's name.
func (s *Stack) Kubeconfig(name string) string {
	return filepath.Join(s.Dir, "kubeconfig", name+".kubeconfig")
}

// Token is the bearer token of a person of the stack: alice, bob, carol or dave.
func (s *Stack) Token(user string) string { return s.tokens[user] }

// KCPAdmin is the configuration of kcp's administrator in a workspace, given by its path.
func (s *Stack) KCPAdmin(workspace string) *rest.Config { return s.inWorkspace("kcp-admin", workspace) }

// KCPUser is the configuration of a person in a workspace.
func (s *Stack) KCPUser(user, workspace string) *rest.Config { return s.inWorkspace(user, workspace) }

// Runtime is the configuration of the runtime cluster's administrator. Only checks of what is
// left, and deliberate damage, use it.
func (s *Stack) Runtime() *rest.Config { return s.load("runtime-admin") }

func (s *Stack) inWorkspace(kubeconfig, workspace string) *rest.Config {
	c := s.load(kubeconfig)
	host, _, _ := strings.Cut(c.Host, "/clusters/")
	c.Host = strings.TrimSuffix(host, "/") + "/clusters/" + workspace
	return c
}

func (s *Stack) load(kubeconfig string) *rest.Config {
	c, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig(kubeconfig))
	if err != nil {
		panic(fmt.Sprintf("kubeconfig %s of stack %s: %v", kubeconfig, s.Name, err))
	}
	c.QPS = -1
	return c
}

// Second brings up a second stack beside this one, whose node can be another runtime cluster. It is to be taken down
// with Down.
func (s *Stack) Second(ctx context.Context) (*Stack, error) {
	second := *s
	second.Name += "-second"
	if _, err := second.Run(ctx, "up", "--for-tests"); err != nil {
		return nil, err
	}
	return Find(ctx, second.Name)
}

// Down stops the stack and leaves nothing of it.
func (s *Stack) Down(ctx context.Context) error {
	_, err := s.Run(ctx, "down")
	return err
}

// Run runs hack/stack's program with a command for this stack and returns what it prints.
func (s *Stack) Run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"-C", filepath.Join(s.root, "hack", "stack"), "run", "."}, append(args, "--name", s.Name)...)...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("stack %s: %w: %s", strings.Join(args, " "), err, complaints.String())
	}
	return out, nil
}

// PID returns the process id on this machine of a part of the stack.
func (s *Stack) PID(ctx context.Context, part string) (int, error) {
	out, err := s.Run(ctx, "status", "-o", "json")
	if err != nil {
		return 0, err
	}
	var status struct {
		Units []struct {
			Processes []struct {
				Name    string `json:"name"`
				HostPID int    `json:"hostPID"`
			} `json:"processes"`
		} `json:"units"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, fmt.Errorf("reading the stack's status: %w", err)
	}
	for _, u := range status.Units {
		for _, p := range u.Processes {
			if p.Name == part && p.HostPID > 0 {
				return p.HostPID, nil
			}
		}
	}
	return 0, fmt.Errorf("stack %s has no running part %q", s.Name, part)
}

// Tools is the folder with kubectl.
func (s *Stack) Tools() string {
	data, err := os.ReadFile(filepath.Join(s.Dir, "stack.json"))
	var state struct {
		Bin string `json:"bin"`
	}
	if err != nil || json.Unmarshal(data, &state) != nil {
		return ""
	}
	return state.Bin
}
