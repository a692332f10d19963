// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// mistake is a call that cannot succeed, and how the program ends.
type mistake struct {
	args string
	// input is what the command reads.
	input string
	code  int
}

// refusingObjects refuses each request to objects, and leaves discovery and schemas as they are.
func refusingObjects(err *apierrors.StatusError) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		s := w.Stocked(t)
		clitest.WithSchema(t, s)
		s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/namespaces/") {
				return false
			}
			objecttest.Refuse(rw, err)
			return true
		})
	}
}

// Each cause for which a call cannot succeed is told in one or two lines with what to do, by every command in the same words,
// and the exit code says whose mistake it is. All of it is in testdata/bad-input.golden; write it with -update.
func TestBadInputIsRefusedInTwoLinesAtMost(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxes"}, "", errors.New("access denied"))
	const object = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: web, resourceVersion: \"7\"}\n"
	stocked := func(t *testing.T, w *world) { t.Helper(); clitest.WithSchema(t, w.Stocked(t)) }
	eleven := strings.TrimSuffix(strings.Repeat("a=b,", 11), ",")
	var golden strings.Builder
	for _, c := range []struct {
		cause   string
		arrange func(*testing.T, *world)
		calls   []mistake
	}{
		{"an unknown kind", stocked, []mistake{
			{args: "get pods", code: cli.ExitFailure},
			{args: "describe pod web", code: cli.ExitFailure},
			{args: "create pod web", code: cli.ExitFailure},
			{args: "label pod web a=b", code: cli.ExitFailure},
			{args: "delete pod web", code: cli.ExitFailure},
			{args: "explain pod", code: cli.ExitFailure},
			{args: "logs web --resource pods.sandbar.dev", code: cli.ExitFailure},
			{args: "logs pod/web", code: cli.ExitFailure},
			{args: "exec sandbx/web -- true", code: cli.ExitOurs},
			{args: "suspend pod/web", code: cli.ExitFailure},
			{args: "cp pod/web:a b", code: cli.ExitFailure},
		}},
		{"a name that is not one", stocked, []mistake{
			{args: "get sandbox/a/b", code: cli.ExitUsage},
			{args: "logs sandbox/a/b", code: cli.ExitUsage},
			{args: "exec /web -- true", code: cli.ExitUsage},
			{args: "suspend My_App", code: cli.ExitUsage},
			{args: "cp sandbox/My_App:a b", code: cli.ExitUsage},
			{args: "logs sandbox/web --resource sandboxes.sandbar.dev", code: cli.ExitUsage},
			{args: "dev sandbox/web . --create", code: cli.ExitUsage},
		}},
		{"a name of several kinds", func(t *testing.T, w *world) { t.Helper(); w.withTwins(t) }, []mistake{
			{args: "logs web", code: cli.ExitUsage},
			{args: "exec web -- true", code: cli.ExitUsage},
			{args: "suspend web", code: cli.ExitUsage},
			{args: "cp web:a b", code: cli.ExitUsage},
		}},
		{"a name that no instance has", stocked, []mistake{
			{args: "logs wbe", code: cli.ExitFailure},
			{args: "logs sandbox/wbe", code: cli.ExitFailure},
			{args: "suspend warm", code: cli.ExitFailure},
		}},
		{"no binding", func(_ *testing.T, w *world) { w.Has(nil) }, []mistake{
			{args: "get sandboxes", code: cli.ExitFailure},
			{args: "create sandbox web", code: cli.ExitFailure},
			{args: "logs web", code: cli.ExitFailure},
			{args: "suspend web", code: cli.ExitFailure},
		}},
		{"a server that is not a workspace", func(_ *testing.T, w *world) { w.Has(nil) }, []mistake{
			{args: "get sandboxes --server SERVER", code: cli.ExitFailure}, {args: "logs web --server SERVER", code: cli.ExitFailure},
		}},
		{"a workspace of somebody else, or none", refusingObjects(forbidden), []mistake{
			{args: "get sandboxes --workspace root:other", code: cli.ExitFailure},
			{args: "logs web --workspace root:other", code: cli.ExitFailure},
			{args: "get sandboxes --workspace root/../other", code: cli.ExitUsage},
		}},
		{"a host that is not trusted", func(t *testing.T, w *world) { t.Helper(); w.Trust = filepath.Join(t.TempDir(), "none.json") }, []mistake{
			{args: "logs web", code: cli.ExitFailure}, {args: "exec web -- true", code: cli.ExitOurs}, {args: "open web", code: cli.ExitFailure},
		}},
		{"a label that cannot be", stocked, []mistake{
			{args: "create sandbox x --label 'a b=c'", code: cli.ExitUsage},
			{args: "label sandbox web 'a b=c'", code: cli.ExitUsage},
			{args: "claim node --label 'a b=c'", code: cli.ExitUsage},
			{args: "label sandbox web env=" + strings.Repeat("x", 64), code: cli.ExitUsage},
			{args: "annotate sandbox web 'a b=c'", code: cli.ExitUsage},
		}},
		{"a selector that does not parse", stocked, []mistake{
			{args: "get sandboxes -l 'env in prod'", code: cli.ExitUsage},
			{args: "label sandboxes -l 'env in prod' a=b", code: cli.ExitUsage},
			{args: "delete sandboxes -l env=prod=test", code: cli.ExitUsage},
			{args: "get sandboxes -l 'env=\x1b[2J'", code: cli.ExitUsage},
		}},
		{"a selector that asks for too much", stocked, []mistake{
			{args: "get sandboxes -l " + eleven, code: cli.ExitUsage},
			{args: "label sandboxes a=b -l " + eleven, code: cli.ExitUsage},
			{args: "delete sandboxes -l " + eleven, code: cli.ExitUsage},
			{args: "get sandboxes -l env=" + strings.Repeat("x", 10<<10), code: cli.ExitUsage},
		}},
		{"a stale version", stocked, []mistake{
			{args: "label sandbox web a=b --resource-version 7", code: cli.ExitFailure},
			{args: "annotate sandbox web a=b --resource-version 7", code: cli.ExitFailure},
			{args: "delete sandbox web --resource-version 7", code: cli.ExitFailure},
			{args: "update -f -", input: object, code: cli.ExitFailure},
			{args: "apply -f -", input: object, code: cli.ExitFailure},
			{args: "suspend web --resource sandboxes.sandbar.dev --resource-version 7", code: cli.ExitFailure},
			{args: "resume web --resource sandboxes.sandbar.dev --resource-version 7", code: cli.ExitFailure},
		}},
		{"a right that is missing", refusingObjects(forbidden), []mistake{
			{args: "get sandboxes", code: cli.ExitFailure},
			{args: "describe sandbox web", code: cli.ExitFailure},
			{args: "create sandbox x", code: cli.ExitFailure},
			{args: "label sandbox web a=b", code: cli.ExitFailure},
			{args: "update -f -", input: object, code: cli.ExitFailure},
			{args: "apply -f -", input: object, code: cli.ExitFailure},
			{args: "delete sandbox web", code: cli.ExitFailure},
			{args: "suspend web", code: cli.ExitFailure},
			{args: "logs web", code: cli.ExitFailure},
			{args: "exec web -- true", code: cli.ExitOurs},
			{args: "wait sandbox web", code: cli.ExitFailure},
		}},
		{"a token that has expired", refusingObjects(apierrors.NewUnauthorized("Unauthorized")), []mistake{
			{args: "get sandboxes", code: cli.ExitFailure},
			{args: "create sandbox x", code: cli.ExitFailure},
			{args: "delete sandbox web", code: cli.ExitFailure},
			{args: "suspend web", code: cli.ExitFailure},
			{args: "logs web", code: cli.ExitFailure},
			{args: "exec web -- true", code: cli.ExitOurs},
		}},
	} {
		fmt.Fprintf(&golden, "# %s\n", c.cause)
		w := newWorld(t)
		c.arrange(t, w)
		for _, m := range c.calls {
			golden.WriteString(w.refuses(t, m))
		}
		golden.WriteString("\n")
	}
	clitest.CompareGolden(t, "bad-input.golden", golden.String())
}

// withTwins has a workspace with a Sandbox and a Redis of the name web.
func (w *world) withTwins(t *testing.T) {
	t.Helper()
	var kinds []objecttest.Kind
	for resource, name := range clitest.KindsOf {
		kinds = append(kinds, objecttest.Kind{GVK: sandbarv1alpha1.GroupVersion.WithKind(name), Resource: resource, Columns: clitest.InstanceColumnsOf("Own", "spec")})
	}
	s := objecttest.New(kinds...)
	for _, resource := range []string{"sandboxes", "redis"} {
		s.Put(resource, map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": clitest.KindsOf[resource], "metadata": map[string]any{"name": "web"}})
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.KCP = func(rw http.ResponseWriter, r *http.Request) bool {
		s.ServeHTTP(rw, r)
		return true
	}
}

// serverOf is the address of a kubeconfig's server without its workspace.
func serverOf(t *testing.T, kubeconfig string) string {
	t.Helper()
	cfg, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server, _, _ := strings.Cut(cfg.Clusters["w"].Server, "/clusters/")
	return server
}

// refuses runs a call that has to fail, and returns what a person sees. Long words are shortened in it.
func (w *world) refuses(t *testing.T, m mistake) string {
	t.Helper()
	args := strings.ReplaceAll(m.args, "SERVER", serverOf(t, w.Kubeconfig))
	code, stdout, stderr := w.RunWith(t, strings.NewReader(m.input), clitest.Arguments(args)...)
	if code != m.code {
		t.Errorf("%s: exit code %d, want %d", m.args, code, m.code)
	}
	if lines := strings.Count(stderr, "\n"); stdout != "" || lines < 1 || lines > 2 || !strings.HasPrefix(stderr, "sandbar: ") || strings.Contains(stderr, "\x1b") {
		t.Errorf("%s: stdout %q, stderr %q; want nothing, and one or two lines without control characters", m.args, stdout, stderr)
	}
	text := strings.NewReplacer(w.URL, "https://sandboxes.example.com", strings.Repeat("x", 10<<10), "xxx…").Replace(stderr)
	text = clitest.WorkspaceHost.ReplaceAllString(text, "https://kcp.example.com")
	line := strings.NewReplacer(strings.Repeat("x", 10<<10), "xxx…", "\x1b", `\x1b`).Replace(m.args)
	return fmt.Sprintf("$ sandbar %s\n%s(exit code %d)\n", line, text, code)
}
