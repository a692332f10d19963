// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// runMesh shows copies of services that run already: a shop of three services on the runtime cluster, of which alice and bob
// have a copy of one each. All open the shop at the same address, and a header says whose copies a request means.
func runMesh(ctx context.Context, name string) error {
	start := time.Now()
	say := &narrator{out: os.Stdout, terminal: isTerminal(os.Stdout)}
	stack, err := begin(ctx, say, name)
	if err != nil {
		return err
	}
	say.chapter("The operator starts the provider")
	provider, err := stack.StartProvider(ctx, local.ProviderOptions{Log: say})
	if err != nil {
		return err
	}
	b, err := newBYO(say, stack)
	if err != nil {
		return err
	}
	b.admin.env = append(b.admin.env, "RUNTIME="+stack.Kubeconfig("runtime-admin"))
	m := &mesh{byo: b, stack: stack, provider: provider}
	for _, act := range []func(context.Context) error{b.tenants, b.install, m.bind, m.shop, m.offer, m.clone, m.same, m.end} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	say.chapter("Your turn")
	say.note("bob's copy is still there, and all is running; it took %v; docs/mesh.md has the rest", time.Since(start).Round(time.Second))
	return nil
}

// mesh is the demo of copies.
type mesh struct {
	*byo
	stack    *local.Stack
	provider *local.Provider
}

func (m *mesh) person(user string) *shell {
	person := m.people[user]
	return &person
}

// bind brings the provider's kinds into both workspaces.
func (m *mesh) bind(ctx context.Context) error {
	m.admin.say.chapter("alice and bob bind the provider; neither has a credential of the runtime cluster")
	for _, user := range []string{"alice", "bob"} {
		m.admin.say.note("%s:", user)
		if err := m.person(user).insistFor(ctx, 3*time.Minute, "sandbar bind root:sandbar --yes && sandbar trust --yes"); err != nil {
			return err
		}
	}
	return nil
}

// shop is what runs before anybody has a sandbox.
func (m *mesh) shop(ctx context.Context) error {
	m.admin.say.chapter("A shop of three services runs on the runtime cluster")
	return m.admin.insistFor(ctx, 3*time.Minute, `kubectl --kubeconfig $RUNTIME apply -f examples/mesh/shop.yaml
kubectl --kubeconfig $RUNTIME -n shop rollout status deployment/frontend deployment/catalog deployment/cart --timeout=150s`)
}

// offer has the tenants see it.
func (m *mesh) offer(ctx context.Context) error {
	m.admin.say.chapter("The operator offers it to alice and to bob")
	if err := m.admin.run(ctx, "kubectl --kubeconfig $ADMIN --server $KCP/clusters/root:sandbar apply -f examples/mesh/baseline.yaml"); err != nil {
		return err
	}
	m.admin.say.command("sandbar-provider baseline grant shop")
	out, err := m.provider.Grant(ctx, "shop")
	m.admin.show(string(out))
	if err != nil {
		return fmt.Errorf("sandbar-provider baseline grant shop: %w", err)
	}
	if err := m.admin.run(ctx, "kubectl --kubeconfig $ADMIN --server $KCP/clusters/root:sandbar wait --for=condition=Ready baseline/shop --timeout=150s"); err != nil {
		return err
	}
	return m.person("alice").insist(ctx, "sandbar baselines shop")
}

// clone gives each a copy of one service, with a change.
func (m *mesh) clone(ctx context.Context) error {
	m.admin.say.chapter("alice has a copy of the catalog, and bob one of the cart")
	for _, c := range []struct{ user, command string }{
		{"alice", "sandbar clone shop/catalog --name mine --env 'app:SAYS=  catalog: three teas, and a cake of alice' --route proxy --intercept catalog=catalog:8080 -n shop -o yaml | sandbar apply -f - -n shop"},
		{"bob", "sandbar clone shop/cart --name mine --env 'app:SAYS=  cart: what bob tries' --route proxy --intercept cart=cart:8080 -n shop -o yaml | sandbar apply -f - -n shop"},
	} {
		m.admin.say.note("%s:", c.user)
		// As manifests: they may be there already, from an earlier demo.
		if err := m.person(c.user).run(ctx, "kubectl create namespace shop --dry-run=client -o yaml | kubectl apply -f -\n"+c.command); err != nil {
			return err
		}
	}
	for _, user := range []string{"alice", "bob"} {
		start := time.Now()
		if err := m.person(user).run(ctx, "sandbar wait sandbox mine -n shop --timeout 180s && sandbar route mine -n shop"); err != nil {
			return err
		}
		m.admin.say.note("%s waited %v", user, time.Since(start).Round(10*time.Millisecond))
	}
	return nil
}

// same asks for the shop at the same address, as three people.
func (m *mesh) same(ctx context.Context) error {
	m.admin.say.chapter("The same address, for everybody, for alice and for bob")
	address, stop, err := m.open(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := m.admin.insist(ctx, "curl -fsS "+address); err != nil {
		return err
	}
	for _, c := range []struct{ user, says string }{{"alice", "cake of alice"}, {"bob", "what bob tries"}} {
		m.admin.say.note("%s:", c.user)
		out, err := m.person(c.user).output(ctx, "sandbar curl mine "+address+" -n shop -- -fsS")
		if err == nil && !strings.Contains(out, c.says) {
			err = fmt.Errorf("%s's request was answered %q", c.user, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open makes the shop reachable from this machine, and returns its address.
func (m *mesh) open(ctx context.Context) (address string, stop func(), err error) {
	lines, stop, err := m.admin.follow(ctx, "kubectl --kubeconfig $RUNTIME -n shop port-forward service/frontend :80")
	if err != nil {
		return "", nil, err
	}
	select {
	case line := <-lines:
		m.admin.show(line)
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "Forwarding" {
			stop()
			return "", nil, fmt.Errorf("kubectl port-forward says %q", line)
		}
		return "http://" + words[2] + "/", stop, nil
	case <-time.After(30 * time.Second):
		stop()
		return "", nil, errors.New("kubectl port-forward says nothing")
	}
}

// end removes alice's copy, after which her header means nothing.
func (m *mesh) end(ctx context.Context) error {
	m.admin.say.chapter("alice ends hers, and the catalog is as it was")
	if err := m.person("alice").run(ctx, "sandbar delete sandbox mine -n shop"); err != nil {
		return err
	}
	return m.admin.run(ctx, "kubectl --kubeconfig $RUNTIME -n shop get service catalog cart -o custom-columns=NAME:.metadata.name,SELECTOR:.spec.selector")
}
