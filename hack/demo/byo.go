// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// runBYO shows two providers, each with a workspace, an export and identities of its own, and two tenants, each bound to
// one of them, who use one program. The program and the tenants know of no provider. Both providers use the runtime
// cluster of the stack: a second node would double what the demo needs.
func runBYO(ctx context.Context, name string) error {
	start := time.Now()
	say := &narrator{out: os.Stdout, terminal: isTerminal(os.Stdout)}
	stack, err := begin(ctx, say, name)
	if err != nil {
		return err
	}
	for _, provider := range []string{"", "blue"} {
		say.chapter("An operator brings a provider: " + described(provider))
		p, err := stack.StartProvider(ctx, local.ProviderOptions{Name: provider, Templates: []string{"sandbox-runner"}, Log: say})
		if err != nil {
			return err
		}
		say.note("workspace %s, data plane %s, log %s", p.Workspace, p.URL, p.LogFile())
	}
	b, err := newBYO(say, stack)
	if err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{b.tenants, b.install, b.bind, b.develop, b.move} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	say.chapter("Your turn")
	say.note("everything is still running; it took %v; docs/byo.md has the same for clusters of your own", time.Since(start).Round(time.Second))
	return nil
}

func described(provider string) string {
	if provider == "" {
		return "root:sandbar"
	}
	return fmt.Sprintf("root:%[1]s, with the name %[1]s on the runtime cluster", provider)
}

// byo is what the people of the demo have.
type byo struct {
	admin shell
	// checkout is where the program is.
	checkout shell
	people   map[string]shell
}

func newBYO(say *narrator, stack *local.Stack) (*byo, error) {
	dir := filepath.Join(stack.Dir, "demo-byo")
	checkout, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "bin")
	path := "PATH=" + bin + ":" + stack.Tools() + ":" + os.Getenv("PATH")
	b := &byo{
		admin: shell{say, checkout, append(os.Environ(), path, "ADMIN="+stack.Kubeconfig("kcp-admin"),
			"KCP="+strings.TrimSuffix(stack.KCPAdmin("root").Host, "/clusters/root"))},
		checkout: shell{say, checkout, append(os.Environ(), path, "BINDIR="+bin)},
		people:   map[string]shell{},
	}
	for _, user := range []string{"alice", "bob"} {
		home := filepath.Join(dir, user)
		if err := os.MkdirAll(home, 0o700); err != nil {
			return nil, err
		}
		kubeconfig, err := inWorkspace(stack, user, home)
		if err != nil {
			return nil, err
		}
		b.people[user] = shell{say, checkout, append(os.Environ(), path, "KUBECONFIG="+kubeconfig, "SANDBAR_CONFIG_DIR="+filepath.Join(home, "config"))}
	}
	return b, nil
}

// tenants makes a workspace for each.
func (b *byo) tenants(ctx context.Context) error {
	b.admin.say.chapter("An administrator of kcp gives alice and bob a workspace each")
	return b.admin.insistFor(ctx, 2*time.Minute, `for user in alice bob; do
  sed s/alice/$user/ examples/tenant/workspace.yaml | kubectl --kubeconfig $ADMIN --server $KCP/clusters/root apply -f -
  kubectl --kubeconfig $ADMIN --server $KCP/clusters/root wait --for=jsonpath='{.status.phase}'=Ready workspace/$user --timeout=180s
  sed s/alice/$user/ examples/tenant/admin.yaml | kubectl --kubeconfig $ADMIN --server $KCP/clusters/root:$user apply -f -
done`)
}

// install builds the command line and the program.
func (b *byo) install(ctx context.Context) error {
	b.admin.say.chapter("The command line, and one program, examples/programs/go")
	return b.checkout.run(ctx, "make -s install BINDIR=$BINDIR && go build -o $BINDIR/program ./examples/programs/go")
}

// bind is the only moment at which somebody names a provider.
func (b *byo) bind(ctx context.Context) error {
	b.admin.say.chapter("Each tenant binds a provider; nothing else says which one serves them")
	if err := b.begin(ctx, "alice", "root:sandbar"); err != nil {
		return err
	}
	return b.begin(ctx, "bob", "root:blue")
}

// begin binds a provider and has a sandbox there.
func (b *byo) begin(ctx context.Context, user, provider string) error {
	person := b.people[user]
	person.say.note("%s:", user)
	// As a manifest: a workspace may have it already, from an earlier demo.
	return person.insistFor(ctx, 3*time.Minute, "sandbar bind "+provider+` --yes && sandbar trust --yes
sandbar apply -f examples/tenant/sandboxrunner-byo.yaml && sandbar wait sandboxrunner web --timeout 120s`)
}

// develop runs the program for both.
func (b *byo) develop(ctx context.Context) error {
	b.admin.say.chapter("The same program works for both, each with their own token")
	if err := b.program(ctx, "alice"); err != nil {
		return err
	}
	return b.program(ctx, "bob")
}

func (b *byo) program(ctx context.Context, user string) error {
	person := b.people[user]
	person.say.note("%s:", user)
	return person.insist(ctx, "program web echo served by $(kubectl get sandboxrunner web -o jsonpath='{.status.dataPlane.url}' | cut -d/ -f1-3)")
}

// move takes alice to the other provider.
func (b *byo) move(ctx context.Context) error {
	b.admin.say.chapter("alice moves to the other provider, and the program does not notice")
	alice := b.people["alice"]
	if err := alice.run(ctx, "kubectl delete apibinding sandbar.dev --timeout=120s"); err != nil {
		return err
	}
	alice.say.note("the former provider has deleted her sandbox and its volume, and its data plane knows her workspace no more")
	if err := b.begin(ctx, "alice", "root:blue"); err != nil {
		return err
	}
	return b.program(ctx, "alice")
}
