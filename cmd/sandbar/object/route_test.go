// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// routed makes a workspace that has Sandboxes, SandboxGroups and SandboxRoutes.
func (w *world) routed(t *testing.T, objects map[string][]string) {
	t.Helper()
	kind := func(name, resource string) objecttest.Kind {
		return objecttest.Kind{GVK: sandbarv1alpha1.GroupVersion.WithKind(name), Resource: resource}
	}
	s := objecttest.New(kind("Sandbox", "sandboxes"), kind("SandboxGroup", "sandboxgroups"), kind("SandboxRoute", "sandboxroutes"))
	for resource, texts := range objects {
		for _, text := range texts {
			obj := unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
				t.Fatal(err)
			}
			obj.SetAPIVersion(sandbarv1alpha1.GroupVersion.String())
			obj.SetNamespace("default")
			s.Put(resource, obj.Object)
		}
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
		s.ServeHTTP(rw, r)
		return true
	}
}

const (
	ledSandbox = `{kind: Sandbox, metadata: {name: led}, status: {underlyingRefs: {sandboxGroupName: led, sandboxRouteName: led},
		routingKey: {headerName: baggage, value: sbx-abcd1234}, endpoints: [{url: "https://shop.example.com/api"}], conditions: [{type: Attached, status: "True", reason: RouteAttached}]}}`
	plainSandbox = `{kind: Sandbox, metadata: {name: plain}, status: {phase: Ready}}`
	heldSandbox  = `{kind: Sandbox, metadata: {name: held}, status: {underlyingRefs: {sandboxGroupName: held},
		routingKey: {headerName: x-id, value: sbx-abcd1234}, conditions: [{type: Attached, status: "False", reason: NotAllowed, message: "not\u001b[2J this hostname"}]}}`
	ledRoute = `{kind: SandboxRoute, metadata: {name: led}, spec: {provider: gateway, rules: [
		{name: api, matches: [{method: GET, path: {type: Exact, value: /api}}, {path: {type: PathPrefix, value: /v1}, headers: [{name: x-a, value: "1"}], queryParams: [{name: q, type: RegularExpression, value: "a.*"}]},
			{path: {type: RegularExpression, value: "/v[23]/.*"}}], backends: [{component: {name: web, port: http}, weight: 9}, {component: {name: blue, port: 8080}}]},
		{name: rest, backends: [{component: {name: web, port: http}}]},
		{name: cart, targetServiceRef: {name: cart}, backends: [{service: {name: cart, port: 80}, weight: 0}, {service: {name: cart-v2, port: 80}}]}]},
		status: {sandboxID: sbx-abcd1234, hostnames: [shop.example.com, "*.example.com"], endpoints: [{rule: api, url: "https://shop.example.com/api", hostname: shop.example.com}, {rule: api, hostname: "*.example.com"}],
			shadowed: [{rule: rest, by: shop/api, message: "requests for /x go to \u001b[2Jshop/api"}], conditions: [{type: Attached, status: "True", reason: RouteAttached, message: requests are led}]}}`
	newRoute = `{kind: SandboxRoute, metadata: {name: new}, spec: {provider: gateway, selectorHeaderName: X-Id, rules: [{name: web, backends: [{component: {name: web, port: http}}]}]}}`
)

func routedObjects() map[string][]string {
	escaped := func(texts ...string) (all []string) {
		for _, text := range texts {
			all = append(all, strings.ReplaceAll(text, `\u001b`, `\e`))
		}
		return all
	}
	return map[string][]string{
		"sandboxes":     escaped(ledSandbox, plainSandbox, heldSandbox),
		"sandboxgroups": escaped(`{kind: SandboxGroup, metadata: {name: group}, status: {sandboxID: sbx-abcd1234}}`),
		"sandboxroutes": escaped(ledRoute, newRoute),
	}
}

func TestRouteShowsWhichRequestsAreLedWhere(t *testing.T) {
	w := newWorld(t)
	w.routed(t, routedObjects())
	w.Transcript(t, "route.golden", []clitest.Turn{
		{Name: "that of a Sandbox", Args: "route led"},
		{Name: "one of its own, without a status", Args: "route sandboxroute/new"},
		{Name: "a Sandbox without routing", Args: "route plain"},
		{Name: "a group, which has none", Args: "route sandboxgroup/group"},
		{Name: "a Sandbox that is not there", Args: "route nothing"},
		{Name: "without a name", Args: "route"},
	})
}

// TestCurlSendsTheHeaderOfTheSandbox has a program in the place of curl that prints its arguments; e2e has the real one.
func TestCurlSendsTheHeaderOfTheSandbox(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\"\ncat\ncase \"$*\" in *--fail*) exit 22;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "curl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+path)
	w := newWorld(t)
	w.routed(t, routedObjects())
	for _, c := range []struct {
		args         string
		code         int
		stdout, says string
	}{
		{"led", 0, "--header\nbaggage: sandbox=sbx-abcd1234\n--url\nhttps://shop.example.com/api\n", ""},
		{"led /cart?id=1 -- -sS --data x", 0, "--header\nbaggage: sandbox=sbx-abcd1234\n--url\nhttps://shop.example.com/cart?id=1\n-sS\n--data\nx\n", ""},
		{"sandbox/led https://10.0.0.1/ -- --fail", 22, "--header\nbaggage: sandbox=sbx-abcd1234\n--url\nhttps://10.0.0.1/\n--fail\n", ""},
		{"sandboxgroup/group http://a.example.com", 0, "--header\nbaggage: sandbox=sbx-abcd1234\n--url\nhttp://a.example.com\n", ""},
		{"sandboxgroup/group", cli.ExitUsage, "", "no address that can be opened: write the URL"},
		{"held http://a.example.com", 0, "--header\nx-id: sbx-abcd1234\n--url\nhttp://a.example.com\n", "Requests may go to the environment: Attached is False, NotAllowed: not\\x1b[2J this hostname\n"},
		{"plain", cli.ExitFailure, "", "no request is led to Sandbox plain"},
		{"led file:///etc/passwd", cli.ExitUsage, "", "neither a URL"},
		{"led / -sS", cli.ExitUsage, "", "unknown shorthand flag"},
		{"led / more", cli.ExitUsage, "", "arguments of curl come behind --"},
		{"-- -sS", cli.ExitUsage, "", "curl takes NAME"},
		{"nothing", cli.ExitFailure, "", "nothing"},
	} {
		code, stdout, stderr := w.Run(t, append([]string{"curl"}, strings.Fields(c.args)...)...)
		if code != c.code || stdout != c.stdout || !strings.Contains(stderr, c.says) || c.says == "" && stderr != "" {
			t.Errorf("curl %s: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if code, _, stderr := w.Run(t, "curl", "led"); code != 127 || !strings.Contains(stderr, "curl is not installed") {
		t.Errorf("without curl: exit code %d, %q", code, stderr)
	}
}
