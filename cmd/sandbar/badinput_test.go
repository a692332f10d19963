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
		s := w.stocked(t)
		withSchema(t, s)
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
	stocked := func(t *testing.T, w *world) { t.Helper(); withSchema(t, w.stocked(t)) }
	eleven := strings.TrimSuffix(strings.Repeat("a=b,", 11), ",")
	var golden strings.Builder
	for _, c := range []struct {
		cause   string
		arrange func(*testing.T, *world)
		calls   []mistake
	}{
		{"an unknown kind", stocked, []mistake{
			{args: "get pods", code: exitFailure},
			{args: "describe pod web", code: exitFailure},
			{args: "create pod web", code: exitFailure},
			{args: "label pod web a=b", code: exitFailure},
			{args: "delete pod web", code: exitFailure},
			{args: "explain pod", code: exitFailure},
			{args: "logs web --resource pods.sandbar.dev", code: exitFailure},
			{args: "logs pod/web", code: exitFailure},
			{args: "exec sandbx/web -- true", code: exitOurs},
			{args: "suspend pod/web", code: exitFailure},
			{args: "cp pod/web:a b", code: exitFailure},
		}},
		{"a name that is not one", stocked, []mistake{
			{args: "get sandbox/a/b", code: exitUsage},
			{args: "logs sandbox/a/b", code: exitUsage},
			{args: "exec /web -- true", code: exitUsage},
			{args: "suspend My_App", code: exitUsage},
			{args: "cp sandbox/My_App:a b", code: exitUsage},
			{args: "logs sandbox/web --resource sandboxes.sandbar.dev", code: exitUsage},
			{args: "dev sandbox/web . --create", code: exitUsage},
		}},
		{"a name of several kinds", func(t *testing.T, w *world) { t.Helper(); w.withTwins(t) }, []mistake{
			{args: "logs web", code: exitUsage},
			{args: "exec web -- true", code: exitUsage},
			{args: "suspend web", code: exitUsage},
			{args: "cp web:a b", code: exitUsage},
		}},
		{"a name that no instance has", stocked, []mistake{
			{args: "logs wbe", code: exitFailure},
			{args: "logs sandbox/wbe", code: exitFailure},
			{args: "suspend warm", code: exitFailure},
		}},
		{"no binding", func(_ *testing.T, w *world) { w.has(nil) }, []mistake{
			{args: "get sandboxes", code: exitFailure},
			{args: "create sandbox web", code: exitFailure},
			{args: "logs web", code: exitFailure},
			{args: "suspend web", code: exitFailure},
		}},
		{"a server that is not a workspace", func(_ *testing.T, w *world) { w.has(nil) }, []mistake{
			{args: "get sandboxes --server SERVER", code: exitFailure}, {args: "logs web --server SERVER", code: exitFailure},
		}},
		{"a workspace of somebody else, or none", refusingObjects(forbidden), []mistake{
			{args: "get sandboxes --workspace root:other", code: exitFailure},
			{args: "logs web --workspace root:other", code: exitFailure},
			{args: "get sandboxes --workspace root/../other", code: exitUsage},
		}},
		{"a host that is not trusted", func(t *testing.T, w *world) { t.Helper(); w.trust = filepath.Join(t.TempDir(), "none.json") }, []mistake{
			{args: "logs web", code: exitFailure}, {args: "exec web -- true", code: exitOurs}, {args: "open web", code: exitFailure},
		}},
		{"a label that cannot be", stocked, []mistake{
			{args: "create sandbox x --label 'a b=c'", code: exitUsage},
			{args: "label sandbox web 'a b=c'", code: exitUsage},
			{args: "claim node --label 'a b=c'", code: exitUsage},
			{args: "label sandbox web env=" + strings.Repeat("x", 64), code: exitUsage},
			{args: "annotate sandbox web 'a b=c'", code: exitUsage},
		}},
		{"a selector that does not parse", stocked, []mistake{
			{args: "get sandboxes -l 'env in prod'", code: exitUsage},
			{args: "label sandboxes -l 'env in prod' a=b", code: exitUsage},
			{args: "delete sandboxes -l env=prod=test", code: exitUsage},
			{args: "get sandboxes -l 'env=\x1b[2J'", code: exitUsage},
		}},
		{"a selector that asks for too much", stocked, []mistake{
			{args: "get sandboxes -l " + eleven, code: exitUsage},
			{args: "label sandboxes a=b -l " + eleven, code: exitUsage},
			{args: "delete sandboxes -l " + eleven, code: exitUsage},
			{args: "get sandboxes -l env=" + strings.Repeat("x", 10<<10), code: exitUsage},
		}},
		{"a stale version", stocked, []mistake{
			{args: "label sandbox web a=b --resource-version 7", code: exitFailure},
			{args: "annotate sandbox web a=b --resource-version 7", code: exitFailure},
			{args: "delete sandbox web --resource-version 7", code: exitFailure},
			{args: "update -f -", input: object, code: exitFailure},
			{args: "apply -f -", input: object, code: exitFailure},
			{args: "suspend web --resource sandboxes.sandbar.dev --resource-version 7", code: exitFailure},
			{args: "resume web --resource sandboxes.sandbar.dev --resource-version 7", code: exitFailure},
		}},
		{"a right that is missing", refusingObjects(forbidden), []mistake{
			{args: "get sandboxes", code: exitFailure},
			{args: "describe sandbox web", code: exitFailure},
			{args: "create sandbox x", code: exitFailure},
			{args: "label sandbox web a=b", code: exitFailure},
			{args: "update -f -", input: object, code: exitFailure},
			{args: "apply -f -", input: object, code: exitFailure},
			{args: "delete sandbox web", code: exitFailure},
			{args: "suspend web", code: exitFailure},
			{args: "logs web", code: exitFailure},
			{args: "exec web -- true", code: exitOurs},
			{args: "wait sandbox web", code: exitFailure},
		}},
		{"a token that has expired", refusingObjects(apierrors.NewUnauthorized("Unauthorized")), []mistake{
			{args: "get sandboxes", code: exitFailure},
			{args: "create sandbox x", code: exitFailure},
			{args: "delete sandbox web", code: exitFailure},
			{args: "suspend web", code: exitFailure},
			{args: "logs web", code: exitFailure},
			{args: "exec web -- true", code: exitOurs},
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
	compareGolden(t, "bad-input.golden", golden.String())
}

// withTwins has a workspace with a Sandbox and a Redis of the name web.
func (w *world) withTwins(t *testing.T) {
	t.Helper()
	var kinds []objecttest.Kind
	for resource, name := range kindsOf {
		kinds = append(kinds, objecttest.Kind{GVK: sandbarv1alpha1.GroupVersion.WithKind(name), Resource: resource, Columns: instanceColumnsOf("Own", "spec")})
	}
	s := objecttest.New(kinds...)
	for _, resource := range []string{"sandboxes", "redis"} {
		s.Put(resource, map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": kindsOf[resource], "metadata": map[string]any{"name": "web"}})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kcp = func(rw http.ResponseWriter, r *http.Request) bool {
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
	args := strings.ReplaceAll(m.args, "SERVER", serverOf(t, w.kubeconfig))
	code, stdout, stderr := w.runWith(t, strings.NewReader(m.input), arguments(args)...)
	if code != m.code {
		t.Errorf("%s: exit code %d, want %d", m.args, code, m.code)
	}
	if lines := strings.Count(stderr, "\n"); stdout != "" || lines < 1 || lines > 2 || !strings.HasPrefix(stderr, "sandbar: ") || strings.Contains(stderr, "\x1b") {
		t.Errorf("%s: stdout %q, stderr %q; want nothing, and one or two lines without control characters", m.args, stdout, stderr)
	}
	text := strings.NewReplacer(w.url, "https://sandboxes.example.com", strings.Repeat("x", 10<<10), "xxx…").Replace(stderr)
	text = workspaceHost.ReplaceAllString(text, "https://kcp.example.com")
	line := strings.NewReplacer(strings.Repeat("x", 10<<10), "xxx…", "\x1b", `\x1b`).Replace(m.args)
	return fmt.Sprintf("$ sandbar %s\n%s(exit code %d)\n", line, text, code)
}
