// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sandbar-dev/sandbar/bench/load"
	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

// Names of the subjects.
const (
	straight     = "straight"
	sandbar      = "sandbar"
	nginx        = "nginx"
	httputilName = "httputil"
)

// rivals are the proxies, each a process of its own for each number of sandboxes.
type rivals struct {
	rival.Group

	// subjects are by the number of sandboxes.
	subjects map[int][]load.Subject
	upstream string
	hasNginx bool
	// idle is the process of Sandbar's proxy that holds idle connections, and where it listens.
	idle    string
	idlePID int
}

// id is that of a sandbox by its number.
func id(n int) string { return fmt.Sprintf("sbx-%08d", n) }

func startRivals(ctx context.Context, dir string) (*rivals, error) {
	r := &rivals{subjects: map[int][]load.Subject{}}
	var err error
	if r.upstream, err = r.process(ctx, "upstream", 0); err != nil {
		r.Stop()
		return nil, err
	}
	for _, sandboxes := range []int{1, 100} {
		if err := r.start(ctx, dir, sandboxes); err != nil {
			r.Stop()
			return nil, err
		}
	}
	if r.idle, err = r.process(ctx, sandbar, 100); err != nil {
		r.Stop()
		return nil, err
	}
	r.idlePID = r.PIDs[sandbar]
	return r, nil
}

func (r *rivals) start(ctx context.Context, dir string, sandboxes int) error {
	header := "baggage: user=alice,sandbox=" + id(sandboxes-1) + ",tier=gold\r\n"
	add := func(name, address string) {
		r.subjects[sandboxes] = append(r.subjects[sandboxes], load.Subject{Name: name, Address: address, Header: header})
	}
	add(straight, r.upstream)
	address, err := r.nginx(ctx, filepath.Join(dir, strconv.Itoa(sandboxes)), sandboxes)
	if err != nil {
		return err
	}
	if r.hasNginx = address != ""; r.hasNginx {
		add(nginx, address)
	}
	for _, name := range []string{httputilName, sandbar} {
		if address, err = r.process(ctx, name, sandboxes); err != nil {
			return err
		}
		add(name, address)
	}
	return nil
}

// process starts this program again, as one of the others.
func (r *rivals) process(ctx context.Context, name string, sandboxes int) (string, error) {
	address, err := rival.FreeAddress(ctx)
	if err != nil {
		return "", err
	}
	return address, r.Own(ctx, name, "-be", name, "-listen", address, "-to", r.upstream, "-sandboxes", strconv.Itoa(sandboxes))
}

// nginx starts Debian's nginx with a map of the expressions that a Gateway gets, and an upstream for each sandbox. Like
// Sandbar's proxy it logs no request, passes the host, and appends the client's address. It returns where it listens; an
// empty address if it is not installed.
func (r *rivals) nginx(ctx context.Context, dir string, sandboxes int) (string, error) {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		fmt.Fprintln(os.Stderr, "nginx is not installed (nginx-light): it is left out")
		return "", nil //nolint:nilerr // see above
	}
	address, err := rival.FreeAddress(ctx)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making nginx's folder: %w", err)
	}
	var choices, upstreams strings.Builder
	for n := range sandboxes {
		selector, err := route.Selector("baggage", id(n))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&choices, "\t\t\"~%s\" copy%d;\n", strings.ReplaceAll(selector.Value, `\t`, "\t"), n)
		fmt.Fprintf(&upstreams, "\tupstream copy%d { server %s; keepalive 128; keepalive_requests 100000000; }\n", n, r.upstream)
	}
	config := fmt.Sprintf(`
daemon off; worker_processes auto; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 100000000;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	map $http_baggage $backend {
		default baseline;
%[4]s	}
	upstream baseline { server %[2]s; keepalive 128; keepalive_requests 100000000; }
%[5]s	server {
		listen %[3]s;
		location / {
			proxy_pass http://$backend; proxy_http_version 1.1; proxy_set_header Connection "";
			proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
		}
	}
}
`, dir, r.upstream, address, choices.String(), upstreams.String())
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", fmt.Errorf("writing nginx's configuration: %w", err)
	}
	return address, r.Start(nginx, exec.CommandContext(ctx, binary, "-c", file, "-e", filepath.Join(dir, "error.log")))
}
