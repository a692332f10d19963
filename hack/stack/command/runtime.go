// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"

	"github.com/sandbar-dev/sandbar/hack/stack/images"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

const runtimeVariable = "RUNTIME_KUBECONFIG"

// chooseRuntime decides what plays the runtime cluster: what the flag says, the
// cluster of RUNTIME_KUBECONFIG, or an own node.
func (s *setup) chooseRuntime() (state.Runtime, error) {
	given := os.Getenv(runtimeVariable)
	switch r := state.Runtime(s.runtime); {
	case r == "" && given != "", r == state.RuntimeExternal && given != "":
		return state.RuntimeExternal, nil
	case r == state.RuntimeExternal:
		return "", usageError{"--runtime external needs " + runtimeVariable}
	case r == "" || r == state.RuntimeNode:
		return state.RuntimeNode, nil
	case r == state.RuntimeKind:
		return r, nil
	default:
		return "", usageError{fmt.Sprintf("there is no runtime %q", s.runtime)}
	}
}

// preflight finds out whether the runtime can be had, before anything is started.
func (s *stack) preflight(ctx context.Context, runtime state.Runtime) error {
	switch runtime {
	case state.RuntimeKind:
		for _, tool := range []string{"docker", "kind"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("--runtime kind needs %s: %w", tool, err)
			}
		}
		return nil
	case state.RuntimeExternal:
		given := os.Getenv(runtimeVariable)
		// kubectl would take a file that is missing for a cluster on this machine.
		if _, err := os.Stat(given); err != nil {
			return fmt.Errorf("%s: %w", runtimeVariable, err)
		}
		_, err := node.Kubectl(ctx, s.bin("node", "kubectl"), given, "",
			"wait", "--for=condition=Established", "crd/resourcegraphdefinitions.kro.run", "--timeout=10s")
		if err != nil {
			return fmt.Errorf("the cluster of %s must be reachable and have kro installed: %w", runtimeVariable, err)
		}
		return nil
	default:
		return nil
	}
}

// useExternal takes a person's own cluster as the runtime.
func (s *stack) useExternal() error {
	data, err := os.ReadFile(os.Getenv(runtimeVariable))
	if err != nil {
		return fmt.Errorf("reading %s: %w", runtimeVariable, err)
	}
	progress.Say("images are not brought into a cluster that is not the stack's own: it must be able to pull %s and others", images.Ref("runner"))
	return state.WriteFile(s.dir.Kubeconfig("runtime-admin"), data, 0o600)
}

// kroUnit runs kro beside a cluster that is not a node of the stack's own.
const kroUnit = "kro"

func (s *setup) kindCluster() string { return "sandbar-" + s.name }

// startKind makes a kind cluster, brings the images in and runs kro on the host.
// It could not be tried where it was written: there was no Docker.
func (s *stack) startKind(ctx context.Context) error {
	chosen, err := parts.Named([]string{"kro", "gatewayapi", "pause", "coredns"})
	if err != nil {
		return err
	}
	more, err := parts.Build(ctx, s.hack, s.cache, chosen)
	if err != nil {
		return err
	}
	maps.Copy(s.built, more)
	if err := s.createKind(ctx); err != nil {
		return err
	}
	if err := s.loadKindImages(ctx); err != nil {
		return err
	}
	n := node.Node{Name: s.name, Dir: s.dir, Bin: s.bin}
	if err := progress.Step("CRDs installed", func() error { return n.InstallCRDs(ctx) }); err != nil {
		return err
	}
	_, err = s.ensureUnit(ctx, unit.Spec{
		Name: kroUnit, Dir: s.dir.Units(), LogDir: s.dir.Logs(),
		Processes: []unit.Process{n.Kro(s.dir.Kubeconfig("runtime-admin"))},
	}, nil, nil)
	return err
}

func (s *stack) createKind(ctx context.Context) error {
	clusters, err := kind(ctx, "get", "clusters")
	if err != nil {
		return err
	}
	if !strings.Contains("\n"+clusters+"\n", "\n"+s.kindCluster()+"\n") {
		err := progress.Step("kind cluster created", func() error {
			_, err := kind(ctx, "create", "cluster", "--name", s.kindCluster(),
				"--kubeconfig", s.dir.Kubeconfig("kind-scratch"), "--wait", "120s")
			return err
		})
		if err != nil {
			return err
		}
	}
	config, err := kind(ctx, "get", "kubeconfig", "--name", s.kindCluster())
	if err != nil {
		return err
	}
	return state.WriteFile(s.dir.Kubeconfig("runtime-admin"), []byte(config), 0o600)
}

func (s *stack) loadKindImages(ctx context.Context) error {
	archives, err := s.builder().Build(ctx, []string{"runner", "toolchain-node", "redis"}, true)
	if err != nil {
		return err
	}
	for name, archive := range archives {
		err := progress.Step("image "+name+" loaded", func() error {
			_, err := kind(ctx, "load", "image-archive", archive, "--name", s.kindCluster())
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) deleteKind(ctx context.Context) error {
	return errors.Join(s.stopUnit(ctx, kroUnit), progress.Step("kind cluster deleted", func() error {
		_, err := kind(ctx, "delete", "cluster", "--name", s.kindCluster())
		return err
	}))
}

func kind(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "kind", args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("kind %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("kind: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
