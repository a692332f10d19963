// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package parts builds the programs that a stack runs, from Go modules, into a
// cache that all stacks and checkouts share. A part is built once per content:
// its folder in the cache is named for a hash of everything that decides what
// comes out (module files, sources, flags, Go version, machine).
package parts

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Part is something that is built from one Go module below hack/.
type Part struct {
	Name string
	// Module is the module's folder below hack/.
	Module string
	// Packages are built to binaries named for their last path element.
	Packages []string
	// Tags are Go build tags.
	Tags string
	// CGO links against the machine's C library. The others run anywhere.
	CGO bool
	// Links are further names of the (only) binary.
	Links []string
	// CopyFrom copies folders of a dependency: "module//folder" to a name.
	CopyFrom map[string]string
	// VersionOf are modules whose required versions make the version that the binaries tell.
	// Empty for binaries that know it themselves.
	VersionOf []string
	// onDemand keeps the part out of what a stack starts with.
	onDemand bool
	// prepare changes the module's folder before the build.
	prepare func(ctx context.Context, dir string) error
}

// All lists the parts, the slowest first: that is the order of building.
var All = []Part{
	{
		Name: "kcp", Module: "kcp", Packages: []string{"github.com/kcp-dev/kcp/cmd/kcp"}, prepare: patchFramework,
		VersionOf: []string{"k8s.io/kubernetes", "github.com/kcp-dev/kcp"},
	},
	// No stack runs it: the end-to-end tests start one in front of a stack's kcp.
	{Name: "front-proxy", Module: "kcp", Packages: []string{"github.com/kcp-dev/kcp/cmd/kcp-front-proxy"}, prepare: patchFramework},
	{
		Name: "node", Module: "node", Packages: []string{"."}, CGO: true, Links: []string{"kubectl"},
		VersionOf: []string{"k8s.io/kubernetes"},
	},
	{
		Name: "kro", Module: "kro", Packages: []string{"github.com/kubernetes-sigs/kro/cmd/controller"},
		CopyFrom: map[string]string{"github.com/kubernetes-sigs/kro//helm/crds": "crds"},
	},
	{Name: "containerd", Module: "containerd", Packages: []string{
		"github.com/containerd/containerd/v2/cmd/containerd",
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"github.com/containerd/containerd/v2/cmd/ctr",
	}},
	{Name: "coredns", Module: "coredns", Packages: []string{"."}},
	{Name: "netpol", Module: "netpol", Packages: []string{"."}},
	{Name: "runc", Module: "runc", Packages: []string{"github.com/opencontainers/runc"}, Tags: "seccomp", CGO: true},
	{
		Name: "gatewayapi", Module: "gatewayapi",
		CopyFrom: map[string]string{"sigs.k8s.io/gateway-api//config/crd/standard": "crds"},
	},
	{Name: "pause", Module: "stack/pause", Packages: []string{"."}},
	// It takes some minutes, and few need a gateway.
	{Name: "traefik", Module: "traefik", Packages: []string{"github.com/traefik/traefik/v3/cmd/traefik"}, onDemand: true},
}

// Named returns the parts with those names, when there are none all that a stack starts with.
func Named(names []string) ([]Part, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(All), func(p Part) bool { return p.onDemand }), nil
	}
	var chosen []Part
	for _, name := range names {
		found := false
		for _, p := range All {
			if p.Name == name {
				chosen, found = append(chosen, p), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no part %q", name)
		}
	}
	return chosen, nil
}

// goEnv is the environment of every go command: the modules under hack/ are no
// part of a workspace, and nothing of the person's own flags may leak into what
// is cached.
func (p Part) goEnv() []string {
	cgo := "0"
	if p.CGO {
		cgo = "1"
	}
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_ENABLED="+cgo)
}

func (p Part) goBuildArgs(out, version string) []string {
	args := []string{"build", "-trimpath", "-ldflags=" + linkFlags(version), "-o", out + string(os.PathSeparator)}
	if p.Tags != "" {
		args = append(args, "-tags", p.Tags)
	}
	return append(args, p.Packages...)
}

func (p Part) goRun(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, p.goEnv()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, tail(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// tailLines is how much of a failed command's output explains it.
const tailLines = 20

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// moduleDir returns where the module cache has a dependency's source.
func (p Part) moduleDir(ctx context.Context, dir, module string) (string, error) {
	// Downloaded by name first: list alone reports no folder for what is missing.
	if _, err := p.goRun(ctx, dir, "mod", "download", module); err != nil {
		return "", err
	}
	return p.goRun(ctx, dir, "list", "-m", "-f", "{{.Dir}}", module)
}

// HackDir finds the checkout's hack folder: from the working directory upwards.
func HackDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for {
		hack := filepath.Join(dir, "hack")
		if _, err := os.Stat(filepath.Join(hack, "stack", "go.mod")); err == nil {
			return hack, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("not inside a checkout of Sandbar: no hack/stack above %s", dir)
		}
		dir = parent
	}
}
