// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestTwoProviders: one kcp has two providers, each with a workspace, an export and Templates of its own, and both share
// the runtime cluster (TestTwoProvidersOnTwoClusters has one each). It keeps the promises 003-6 and 003-38 of the
// requirements: the binding alone decides which provider serves a workspace, and no client knows of it.
func TestTwoProviders(t *testing.T) {
	changes(t)
	blue := startProvider(t, local.ProviderOptions{Name: "blue", Templates: []string{"sandbox-runner"}})
	alice, bob := newTenant(t, "alice"), newWorkspace(t, "bob")
	bob.bindTo(blue, reviewsClaim("Accepted"), eventsClaim())

	// One program, in two workspaces.
	program := newProgram(t)
	for tn, by := range map[*tenant]*local.Provider{alice: world, bob: blue} {
		if served := program.develops(tn, "web"); served != by.URL {
			t.Errorf("the workspace of %s is served by %s, and is bound to the provider at %s", tn.user, served, by.URL)
		}
	}
	t.Run("refuse each other's workspaces", func(t *testing.T) {
		refusesOthers(t, world, alice, blue, bob)
		refusesOthers(t, blue, bob, world, alice)
	})
	t.Run("believe no preview of each other", func(t *testing.T) { believesNoPreview(t, blue, alice, bob) })
	t.Run("leave each other's placements alone", func(t *testing.T) { ownPlacements(t, blue, alice, bob) })
	t.Run("are changed by a new binding", func(t *testing.T) { movesTo(t, program, alice, blue) })
	for _, tn := range []*tenant{alice, bob} { // as long as blue runs: nobody else would clean up
		box := tn.instanceOf(t, "web")
		box.delete()
		waitGone(t, box.id)
	}
}

// TestTwoProvidersOnTwoClusters: a workspace is backed by somebody else's cluster, with no change to any client (003-38,
// and 003-37 by App Studio, whose people are on different providers). Each provider has a node of its own, and both have all their names there.
func TestTwoProvidersOnTwoClusters(t *testing.T) {
	long(t, "it starts a second node")
	changes(t)
	second, err := world.Stack.Second(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Down(context.Background()); err != nil {
			t.Errorf("taking the second stack down: %v", err)
		}
	})
	green := startProvider(t, local.ProviderOptions{Name: "green", Runtime: second, Templates: []string{"sandbox-runner"}})
	alice, bob := newTenant(t, "alice"), newWorkspace(t, "bob")
	bob.bindTo(green, reviewsClaim("Accepted"), eventsClaim())
	program := newProgram(t)
	for tn, by := range map[*tenant]*local.Provider{alice: world, bob: green} {
		if served := program.develops(tn, "web"); served != by.URL {
			t.Errorf("the workspace of %s is served by %s, and is bound to the provider at %s", tn.user, served, by.URL)
		}
		onlyOn(t, by, tn.instanceOf(t, "web").id, world, green)
	}
	t.Run("refuse each other's workspaces", func(t *testing.T) {
		refusesOthers(t, world, alice, green, bob)
		refusesOthers(t, green, bob, world, alice)
	})
	t.Run("believe no preview of each other", func(t *testing.T) { believesNoPreview(t, green, alice, bob) })
	t.Run("serve the same product", func(t *testing.T) { serveOneProduct(t, green, alice, bob) })
	t.Run("are changed by a new binding", func(t *testing.T) { movesTo(t, program, alice, green) })
	for _, tn := range []*tenant{alice, bob} { // as long as green runs: nobody else would clean up
		box := tn.instanceOf(t, "web")
		onlyOn(t, green, box.id, world, green)
		box.delete()
		waitGoneFrom(t, green.Runtime(), box.id)
	}
}

// serveOneProduct: two people use App Studio, and their workspaces are bound to a provider each.
func serveOneProduct(t *testing.T, green *local.Provider, alice, bob *tenant) {
	t.Helper()
	studio := startAppStudio(t, green)
	for tn, by := range map[*tenant]*local.Provider{alice: world, bob: green} {
		b := newBrowserOf(t, trustingHome(t, green.CAFile))
		p := b.open(t, studio.url)
		studio.login(p, tn)
		studio.creates(p)
		app := studio.shows(b, p)
		if port := eval[string](app, "location.port"); port != portOf(t, by) {
			t.Errorf("the app of %s is shown at port %s, and its provider is at %s", tn.user, port, by.URL)
		}
		studio.wantNoRuntime(green.Runtime())
		shop := tn.instanceOf(t, "shop")
		onlyOn(t, by, shop.id, world, green)
		eval[bool](p, "document.getElementById('delete').click(), true")
		waitGoneFrom(t, by.Runtime(), shop.id)
	}
}

// onlyOn: a placement is on one provider's cluster alone.
func onlyOn(t *testing.T, by *local.Provider, id placement.ID, all ...*local.Provider) {
	t.Helper()
	for _, p := range all {
		_, err := kubernetes.NewForConfigOrDie(p.Runtime().Runtime()).CoreV1().Namespaces().Get(t.Context(), id.Namespace(), metav1.GetOptions{})
		if p == by && err != nil || p != by && !apierrors.IsNotFound(err) {
			t.Errorf("%s on the cluster of %s: %v; it is for that of %s", id.Namespace(), p.URL, err, by.URL)
		}
	}
}

// startProvider starts a further provider on the stack, until the test ends.
func startProvider(t *testing.T, options local.ProviderOptions) *local.Provider {
	t.Helper()
	p, err := world.Stack.StartProvider(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stopping the provider %s: %v", options.Name, err)
		}
	})
	return p
}

// program is a client such as a product may be, with package session. It has the credential of a person and is given a
// workspace, and knows of no provider.
type program struct {
	t   *testing.T
	dir string
}

func newProgram(t *testing.T) program { return program{t, t.TempDir()} }

// workspace is a tenant's, as the program uses it.
func (p program) workspace(tn *tenant, confirm func(client.Offer) bool) session.Workspace {
	return session.Workspace{
		Config: world.Stack.KCPUser(tn.user, tn.path), Namespace: "default",
		Trust: session.TrustStore{Path: filepath.Join(p.dir, "trust.json")}, Confirm: confirm,
	}
}

// develops makes a sandbox, runs a command in it, and returns the origin of the data plane that served it.
func (p program) develops(tn *tenant, name string) string {
	p.t.Helper()
	w := p.workspace(tn, func(client.Offer) bool { return true })
	ctx, cancel := context.WithTimeout(p.t.Context(), patience())
	defer cancel()
	options := session.EnsureOptions{Dir: p.t.TempDir(), StartCommand: "echo it runs; exec sleep 1d", Timeout: patience()}
	if err := w.Ensure(ctx, name, options); err != nil {
		p.t.Fatalf("developing in the workspace of %s: %v", tn.user, err)
	}
	created.Add(1)
	i, err := w.Instance(ctx, client.SandboxRunners, name)
	if err != nil {
		p.t.Fatal(err)
	}
	var out bytes.Buffer
	if code, err := i.Exec(ctx, client.ExecOptions{Command: []string{"echo", tn.user}, Stdout: &out}); err != nil || code != 0 || out.String() != tn.user+"\n" {
		p.t.Fatalf("a command in the sandbox of %s: exit code %d, %q, %v", tn.user, code, out.String(), err)
	}
	return originOf(p.t, i.URL("log", "", nil))
}

func originOf(t *testing.T, u *url.URL) string {
	t.Helper()
	return u.Scheme + "://" + u.Host
}

// at is the same caller at another provider's data plane.
func (c *caller) at(t *testing.T, p *local.Provider) *caller {
	t.Helper()
	return &caller{t: t, url: p.URL, token: c.token, client: &http.Client{
		Transport: &http.Transport{TLSClientConfig: p.TLS(), DisableKeepAlives: true}, CheckRedirect: c.client.CheckRedirect,
	}}
}

// instanceOf is the SandboxRunner of a name as it is now.
func (tn *tenant) instanceOf(t *testing.T, name string) *instance {
	t.Helper()
	obj, err := tn.dyn.Resource(runners).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &instance{tn: tn, gvr: runners, name: name, id: placement.ID{Origin: tn.cluster, UID: obj.GetUID()}}
}

// refusesOthers: a data plane serves no instance of another provider's workspace, even if its owner asks, with every right
// there.
func refusesOthers(t *testing.T, own *local.Provider, ownTenant *tenant, other *local.Provider, otherTenant *tenant) {
	t.Helper()
	asOwner := callAs(t, otherTenant.token)
	mine, foreign := ownTenant.instanceOf(t, "web"), otherTenant.instanceOf(t, "web")
	asOwner.at(t, other).want(http.StatusOK, http.MethodGet, foreign.base()+"/status", nil)
	callAs(t, ownTenant.token).at(t, own).want(http.StatusOK, http.MethodGet, mine.base()+"/status", nil)
	for _, workspace := range []string{otherTenant.path, otherTenant.cluster} {
		for _, call := range []struct{ method, verb string }{
			{http.MethodGet, "log"},
			{http.MethodGet, "proxy"},
			{http.MethodPost, "proxy-url"},
			{http.MethodPost, "sync"},
			{http.MethodPost, "restart"},
			{http.MethodPost, "renew"},
		} {
			code, body := asOwner.at(t, own).do(call.method, "/dataplane/clusters/"+workspace+"/sandboxrunners/web/"+call.verb, nil)
			if code != http.StatusForbidden && code != http.StatusNotFound && code != http.StatusConflict {
				t.Errorf("%s %s of %s at %s: %d %s", call.method, call.verb, workspace, own.URL, code, body)
			}
		}
	}
}

// believesNoPreview takes a link that one provider has sealed to the other's address.
func believesNoPreview(t *testing.T, blue *local.Provider, alice, bob *tenant) {
	t.Helper()
	for tn, by := range map[*tenant]*local.Provider{alice: world, bob: blue} {
		other := map[*local.Provider]*local.Provider{world: blue, blue: world}[by]
		c := callAs(t, tn.token)
		link, err := url.Parse(tn.instanceOf(t, "web").previewLink(c.at(t, by), "/"))
		if err != nil {
			t.Fatal(err)
		}
		for p, believes := range map[*local.Provider]bool{by: true, other: false} {
			moved := *link
			moved.Host = strings.TrimSuffix(link.Host, link.Port()) + portOf(t, p)
			code, body := getAt(t, p, moved.String())
			if opened := code == http.StatusSeeOther || code == http.StatusFound || code == http.StatusOK; opened != believes {
				t.Errorf("a link of %s at %s: code %d: %s", by.URL, p.URL, code, body)
			}
		}
	}
}

// getAt gets an address at a provider's data plane, under any host name. A redirect is not followed.
func getAt(t *testing.T, p *local.Provider, address string) (int, string) {
	t.Helper()
	c := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: p.TLS(), DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", portOf(t, p)))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func portOf(t *testing.T, p *local.Provider) string {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func pemOf(t *testing.T, p *local.Provider) []byte {
	t.Helper()
	bundle, err := os.ReadFile(p.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// ownPlacements: what each provider has on the runtime cluster says whose it is, in names that nobody else has, and the
// other one's identities may not write it.
func ownPlacements(t *testing.T, blue *local.Provider, alice, bob *tenant) {
	t.Helper()
	admin := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	providers := map[string]bool{}
	for tn, other := range map[*tenant]*local.Provider{alice: blue, bob: world} {
		at := tn.instanceOf(t, "web").id.Namespace()
		ns, err := admin.CoreV1().Namespaces().Get(t.Context(), at, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		providers[placement.ProviderOf(ns)] = true
		for _, file := range []string{"runtime-controllers.kubeconfig", "runtime-serve.kubeconfig"} {
			s := steal(t, filepath.Join(other.Dir, file))
			tries(t, nil, map[string]attempt{
				"delete another provider's placement with " + file: s.deleteNamespace(at),
				"change its control token with " + file:            s.secret(at, placement.ControlSecret),
				"open its network with " + file:                    s.networkPolicy(at),
			})
		}
		s := steal(t, filepath.Join(other.Dir, "runtime-serve.kubeconfig"))
		tries(t, nil, map[string]attempt{"run commands in another provider's sandbox": s.connect("pods", at, "any", "exec")})
	}
	if len(providers) != 2 || providers[""] {
		t.Errorf("the placements are of the providers %v, want two", providers)
	}
}

// movesTo moves a tenant's workspace to another provider: the new one serves it, the former one cleans up, and nothing
// of the former one's address is believed any more.
func movesTo(t *testing.T, p program, tn *tenant, to *local.Provider) {
	t.Helper()
	former := tn.instanceOf(t, "web")
	tn.unbind(t)
	waitGone(t, former.id)
	asTenant := callAs(t, tn.token)
	if code, body := asTenant.do(http.MethodGet, former.base()+"/log", nil); code != http.StatusForbidden && code != http.StatusNotFound {
		t.Errorf("without a binding the former data plane answers %d: %s", code, body)
	}

	tn.bindTo(to, reviewsClaim("Accepted"), eventsClaim())
	// A person who trusts the former data plane alone is asked about the new one, and nothing happens before.
	asked := atomic.Int32{}
	untrusting := newProgram(t)
	err := session.TrustStore{Path: filepath.Join(untrusting.dir, "trust.json")}.Add(client.DataPlane{URL: world.URL, CABundle: pemOf(t, world)})
	if err != nil {
		t.Fatal(err)
	}
	w := untrusting.workspace(tn, func(o client.Offer) bool {
		asked.Add(1)
		if !strings.HasPrefix(o.URL, to.URL) {
			t.Errorf("the workspace offers the data plane %s", o.URL)
		}
		return false
	})
	if err := w.Ensure(t.Context(), "moved", session.EnsureOptions{Dir: t.TempDir()}); err == nil || asked.Load() != 1 {
		t.Errorf("a person who does not trust the new data plane: asked %d times, %v", asked.Load(), err)
	}
	if _, err := tn.dyn.Resource(runners).Namespace("default").Get(t.Context(), "moved", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("something was created for them: %v", err)
	}
	// What the former provider wrote is nobody's status now, also if the tenant creates the object from a copy of it.
	if served := p.develops(tn, "web"); served != to.URL {
		t.Errorf("the moved workspace is served by %s, want %s", served, to.URL)
	}
	now := tn.instanceOf(t, "web")
	if obj, err := now.get(); err != nil || strings.Contains(mustJSON(t, obj.Object["status"]), world.URL) {
		t.Errorf("the status has something of the former provider: %v, %v", obj.Object["status"], err)
	}
	if code, body := asTenant.do(http.MethodGet, now.base()+"/log", nil); code != http.StatusForbidden && code != http.StatusNotFound && code != http.StatusConflict {
		t.Errorf("the former data plane answers %d: %s", code, body)
	}
}

// unbind takes the binding away, and waits until kcp has it no more: with it go the objects of its kinds.
func (tn *tenant) unbind(t *testing.T) {
	t.Helper()
	bindings := tn.dyn.Resource(apibindings)
	if err := bindings.Delete(t.Context(), "sandbar.dev", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the binding is gone", func() error {
		_, err := bindings.Get(t.Context(), "sandbar.dev", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}
