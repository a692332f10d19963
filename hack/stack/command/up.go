// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sandbar-dev/sandbar/hack/stack/images"
	"github.com/sandbar-dev/sandbar/hack/stack/kcp"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/parts"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
	"github.com/sandbar-dev/sandbar/hack/stack/state"
	"github.com/sandbar-dev/sandbar/hack/stack/unit"
)

// startTimeout is how long a built stack may take to become ready: ten times
// what it takes on two idle cores, because builds and tests may run beside it.
const startTimeout = 5 * time.Minute

// stack is a stack whose parts are built and whose decisions are made.
type stack struct {
	*setup
	decided *state.Stack
	// bin returns the path of a built binary.
	bin func(part, name string) string
	// built and archive are known to a command that builds.
	built   parts.Built
	archive map[string]string
}

func (s *stack) server() kcp.Server {
	return kcp.Server{Dir: s.dir, State: s.decided, Bin: s.bin}
}

func (s *stack) node() node.Node {
	return node.Node{Name: s.name, Dir: s.dir, Net: state.NetworkAt(s.decided.Index), Bin: s.bin, ForTests: s.decided.ForTests}
}

func up(ctx context.Context, setup *setup, args []string) error {
	if len(args) > 0 {
		return usageError{"up takes no arguments"}
	}
	s := &stack{setup: setup}
	runtime, err := setup.chooseRuntime()
	if err != nil {
		return err
	}
	if err := s.build(ctx, runtime); err != nil {
		return err
	}
	if err := s.preflight(ctx, runtime); err != nil {
		return err
	}
	lock, err := setup.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()

	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := s.decide(ctx, runtime); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		s.explain()
		s.explainPods()
		return err
	}
	progress.Say("stack %s is ready", s.name)
	return s.describe(os.Stdout)
}

func (s *setup) lock() (*state.Locked, error) {
	return state.Lock(s.lockFile(), func() {
		progress.Say("another command works on stack %s; waiting", s.name)
	})
}

// lockFile lies beside the stack's folder, which down removes.
func (s *setup) lockFile() string { return string(s.dir) + ".lock" }

// build builds the parts and images that the runtime needs.
func (s *stack) build(ctx context.Context, runtime state.Runtime) error {
	names := []string{"kcp", "node"} // node for kubectl
	if runtime == state.RuntimeNode {
		names = nil
		if os.Geteuid() != 0 {
			return errors.New("an own node needs root; or set RUNTIME_KUBECONFIG, or pass --runtime kind")
		}
		if err := parts.Ensure(ctx, parts.RunTools); err != nil {
			return err
		}
	}
	chosen, err := parts.Named(names)
	if err != nil {
		return err
	}
	if s.built, err = parts.Build(ctx, s.hack, s.cache, chosen); err != nil {
		return err
	}
	s.bin = s.built.Bin
	if runtime != state.RuntimeNode {
		return nil
	}
	s.archive, err = s.builder().Build(ctx, images.Names(false), true)
	return err
}

func (s *stack) builder() *images.Builder {
	return &images.Builder{Root: s.root(), Cache: s.cache, Parts: s.built}
}

// decide takes up the stack's earlier decisions, or makes them: its runtime, its
// ports and its slice of the network.
func (s *stack) decide(ctx context.Context, runtime state.Runtime) error {
	decided, err := s.dir.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case decided.Runtime != runtime:
		return fmt.Errorf("stack %s runs with runtime %q: take it down first, or choose another --name", s.name, decided.Runtime)
	default:
		s.decided = decided
		if s.decided.ForTests != s.forTests {
			return fmt.Errorf("stack %s runs with --for-tests=%t: take it down first, or choose another --name", s.name, s.decided.ForTests)
		}
		return s.resume(ctx)
	}
	if s.dir.Exists() {
		progress.Say("clearing what a killed start of stack %s has left", s.name)
		if err := s.remove(ctx); err != nil {
			return err
		}
	}
	return s.decideAnew(runtime)
}

func (s *stack) decideAnew(runtime state.Runtime) error {
	ports, err := state.FreePorts(3)
	if err != nil {
		return err
	}
	s.decided = &state.Stack{
		Name: s.name, Runtime: runtime, Index: -1,
		KCPPort: ports[0], EtcdClientPort: ports[1], EtcdPeerPort: ports[2],
		Bin: filepath.Join(string(s.dir), "bin"), ForTests: s.forTests,
	}
	if runtime == state.RuntimeNode {
		slice, err := node.Reserve(s.dir, -1)
		if err != nil {
			return err
		}
		s.decided.Index = slice.Index
	}
	return s.dir.Save(s.decided)
}

// resume finds out whether the node runs and, when it does not, takes its slice
// of the network again. When another stack has taken it meanwhile, the addresses
// in all that the node has on disk are wrong: the stack begins anew.
func (s *stack) resume(ctx context.Context) error {
	if s.decided.Runtime != state.RuntimeNode {
		return nil
	}
	running, err := unit.Find(s.dir.Units(), node.UnitName)
	if err != nil || running != nil {
		return err
	}
	progress.Say("stack %s was not taken down and its node is not running: starting it again", s.name)
	if err := node.RemoveCgroups(ctx, s.node().Net.Cgroup()); err != nil {
		return err
	}
	slice, err := node.Reserve(s.dir, s.decided.Index)
	if err != nil || slice.Index == s.decided.Index {
		return err
	}
	progress.Say("its addresses belong to another stack now: beginning anew")
	if err := node.Release(slice); err != nil {
		return err
	}
	if err := s.remove(ctx); err != nil {
		return err
	}
	return s.decideAnew(s.decided.Runtime)
}

// start starts what does not run and waits until all is ready. kcp and the node
// come up at the same time.
func (s *stack) start(ctx context.Context) error {
	if err := s.linkTools(); err != nil {
		return err
	}
	server := s.server()
	if err := server.Prepare(); err != nil {
		return err
	}
	if _, err := s.ensureUnit(ctx, server.Unit(), nil, nil); err != nil {
		return err
	}
	if err := s.startRuntime(ctx); err != nil {
		return err
	}
	return progress.Step("kcp ready", func() error { return server.WaitReady(ctx) })
}

func (s *stack) startRuntime(ctx context.Context) error {
	switch s.decided.Runtime {
	case state.RuntimeExternal:
		return s.useExternal()
	case state.RuntimeKind:
		return s.startKind(ctx)
	default:
		return s.startNode(ctx)
	}
}

func (s *stack) startNode(ctx context.Context) error {
	n := s.node()
	if err := n.Prepare(); err != nil {
		return err
	}
	prepare := func() error { return node.CreateCgroups(n.Net.Cgroup()) }
	running, err := s.ensureUnit(ctx, n.Unit(), prepare, n.Connect)
	if err != nil {
		return err
	}
	// The images of the cluster's own pods first: a pod that does not find its image waits
	// ten seconds before it is tried again. The others come while the cluster starts.
	first, rest := map[string]string{}, map[string]string{}
	for name, archive := range s.archive {
		if name == "pause" || name == "coredns" {
			first[images.Ref(name)] = archive
		} else {
			rest[images.Ref(name)] = archive
		}
	}
	if err := n.WaitForContainerd(ctx, running); err != nil {
		return err
	}
	if err := s.importer(running).Import(ctx, first); err != nil {
		return err
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.importer(running).Import(ctx, rest) })
	both.Go(func() error { return s.startCluster(ctx, n) })
	return both.Wait()
}

// startCluster waits for the node's API server, installs what belongs into it, and waits for that.
func (s *stack) startCluster(ctx context.Context, n node.Node) error {
	if err := progress.Step("API server ready", func() error { return n.WaitForAPI(ctx) }); err != nil {
		return err
	}
	if err := progress.Step("CRDs and cluster services installed", func() error { return n.Install(ctx) }); err != nil {
		return err
	}
	return progress.Step("node, DNS and kro ready", func() error { return n.WaitReady(ctx) })
}

func (s *stack) importer(running *unit.Running) images.Importer {
	return images.Importer{
		CTR:    s.bin("containerd", "ctr"),
		Socket: node.Socket(running),
		Record: filepath.Join(s.dir.Node(), "images.json"),
	}
}

// ensureUnit leaves a unit alone that runs as it should, and starts it
// otherwise. One that runs from another spec (a part was rebuilt) is stopped
// first; what it has on disk stays.
func (s *stack) ensureUnit(ctx context.Context, spec unit.Spec, prepare func() error, connect func(int) error) (*unit.Running, error) {
	running, err := unit.Find(spec.Dir, spec.Name)
	if err != nil {
		return nil, err
	}
	if running != nil && spec.Same() {
		progress.Say("unit %s is running (process %d)", spec.Name, running.PID)
		return running, nil
	}
	if running != nil {
		progress.Say("unit %s runs with other parts: starting it again", spec.Name)
		if err := running.Stop(ctx); err != nil {
			return nil, err
		}
		if spec.Machine != nil {
			if err := s.takeAgain(ctx); err != nil {
				return nil, err
			}
		}
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return nil, err
		}
	}
	running, err = unit.Start(spec, connect)
	if err != nil {
		return nil, err
	}
	progress.Say("unit %s started (process %d)", spec.Name, running.PID)
	return running, nil
}

// takeAgain gives a stopped node its links back, which ended with it.
func (s *stack) takeAgain(ctx context.Context) error {
	n := s.node()
	if err := errors.Join(node.RemoveCgroups(ctx, n.Net.Cgroup()), node.Release(n.Net)); err != nil {
		return err
	}
	slice, err := node.Reserve(s.dir, n.Net.Index)
	if err == nil && slice.Index != n.Net.Index {
		err = errors.Join(
			fmt.Errorf("another stack has just taken the addresses of stack %s: take it down and up again", s.name),
			node.Release(slice))
	}
	return err
}

// linkTools puts the tools for people, and for commands that build nothing, into
// one folder.
func (s *stack) linkTools() error {
	if err := os.MkdirAll(s.decided.Bin, 0o755); err != nil {
		return fmt.Errorf("creating the folder of tools: %w", err)
	}
	tools := []string{s.bin("node", "kubectl")}
	if s.decided.Runtime == state.RuntimeNode {
		tools = append(tools, s.bin("containerd", "ctr"))
	}
	for _, target := range tools {
		link := filepath.Join(s.decided.Bin, filepath.Base(target))
		if current, err := os.Readlink(link); err == nil && current == target {
			continue
		}
		if err := os.RemoveAll(link); err != nil {
			return fmt.Errorf("linking %s: %w", link, err)
		}
		if err := os.Symlink(target, link); err != nil {
			return fmt.Errorf("linking %s: %w", link, err)
		}
	}
	return nil
}

// explainPods prints what the node's cluster warns of.
func (s *stack) explainPods() {
	if s.decided.Runtime != state.RuntimeNode {
		return
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if warnings := s.node().Warnings(ctx); warnings != "" {
		fmt.Fprintf(os.Stderr, "\nthe cluster's last warnings:\n%s\n", warnings)
	}
}
