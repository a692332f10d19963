// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package rival starts the processes that benchmarks measure next to Sandbar, and reads what
// processor time a process uses.
package rival

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Group are rivals of one benchmark.
type Group struct {
	commands []*exec.Cmd
	// PIDs are by subject, where the process is known.
	PIDs map[string]int
}

// Start starts a rival; Stop ends it.
func (g *Group) Start(name string, cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	g.commands = append(g.commands, cmd)
	if g.PIDs == nil {
		g.PIDs = map[string]int{}
	}
	g.PIDs[name] = cmd.Process.Pid
	return nil
}

// Own starts this program again, as a rival.
func (g *Group) Own(ctx context.Context, name string, args ...string) error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	return g.Start(name, exec.CommandContext(ctx, own, args...))
}

// Stop ends all of them.
func (g *Group) Stop() {
	for _, c := range g.commands {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}
}

// Nginx starts Debian's nginx (nginx-light), as it logs by default, in front of a pod, with
// connections to it kept, and further lines for its location. It returns where nginx listens; an
// empty address if it is not installed.
func (g *Group) Nginx(ctx context.Context, name, dir, pod, location string) (string, error) {
	binary, err := exec.LookPath("nginx")
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Fprintln(os.Stderr, "nginx is not installed (nginx-light): it is left out")
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("finding nginx: %w", err)
	}
	address, err := FreeAddress(ctx)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making nginx's folder: %w", err)
	}
	config := fmt.Sprintf(`
daemon off; worker_processes auto; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
	access_log %[1]s/access.log;
	keepalive_requests 100000000;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	upstream pod { server %[2]s; keepalive 128; keepalive_requests 100000000; }
	server {
		listen %[3]s;
		location / { proxy_pass http://pod; proxy_http_version 1.1; %[4]s }
	}
}
`, dir, pod, address, location)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", fmt.Errorf("writing nginx's configuration: %w", err)
	}
	return address, g.Start(name, exec.CommandContext(ctx, binary, "-c", file, "-e", filepath.Join(dir, "error.log")))
}

// FreeAddress is an address on loopback where nobody listened a moment ago.
func FreeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Insist tries for a while: a rival needs a moment until it listens.
func Insist(try func() error) error {
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}
