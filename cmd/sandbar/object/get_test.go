// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestGetPrintsWhatAPersonAsksFor(t *testing.T) {
	w := newWorld(t)
	w.Stocked(t)
	w.Transcript(t, "get.golden", []clitest.Turn{
		{Name: "a list, the oldest first", Args: "get sandboxes"},
		{Name: "the same by other words", Args: "list sbx --no-headers"},
		{Name: "a kind with other columns", Args: "get sandboxsets"},
		{Name: "a toolchain, and a state that a terminal would obey", Args: "ls sandboxrunner"},
		{Name: "all columns", Args: "get sandboxes -o wide"},
		{Name: "all namespaces", Args: "get sandboxes -A"},
		{Name: "another namespace", Args: "get sandboxes -n other"},
		{Name: "by a label", Args: "get sandboxes -l env=prod"},
		{Name: "by a set, in all namespaces, with a column", Args: "get sandboxes -A -l 'env in (prod,test)' -L env,tier"},
		{Name: "by the absence of a label", Args: "get sandboxes -l '!tier' --show-labels"},
		{Name: "by a field", Args: "get sandboxes --field-selector metadata.name=api"},
		{Name: "nothing matches", Args: "get sandboxes -l env=stage"},
		{Name: "nothing matches a label and a field", Args: "get sandboxes -l env=stage --field-selector metadata.name=web"},
		{Name: "nothing in a namespace", Args: "get sandboxsets -n other"},
		{Name: "nothing in any namespace", Args: "get sandboxsets -A -l env=prod"},
		{Name: "nothing, for a program", Args: "get sandboxes -l env=stage -o json"},
		{Name: "one", Args: "get sandbox web"},
		{Name: "one by KIND/NAME", Args: "get sbx/web --no-headers"},
		{Name: "two, in the order of the call", Args: "get sandbox web api -o name"},
		{Name: "two, one of which is not there", Args: "get sandbox wbe api -o name"},
		{Name: "one that is of another kind", Args: "get sandbox app"},
		{Name: "one that is not there", Args: "get sandboxset wram"},
		{Name: "sorted by a field, without a value first", Args: "get sandboxes -A -o name --sort-by .spec.lifecycle.shutdownTime"},
		{Name: "sorted by name", Args: "get sandboxes -A -o name --sort-by {.metadata.name}"},
		{Name: "columns of your own", Args: "get sandboxes -o custom-columns=NAME:.metadata.name,ENV:.metadata.labels.env,TIER:.metadata.labels.tier"},
		{Name: "a JSONPath", Args: "get sandboxes -o jsonpath='{.items[*].metadata.name}'"},
		{Name: "a JSONPath of one", Args: "get sandbox web -o jsonpath={.status.phase}"},
		{Name: "a Go template", Args: "get sandbox web -o go-template='{{.kind}}'"},
		{Name: "one in YAML", Args: "get sandbox api -o yaml"},
		{Name: "a limit", Args: "get sandboxes --limit 1"},
		{Name: "small pages", Args: "get sandboxes --chunk-size 1 -o name"},
	})
}

func TestGetRefusesMistakesBeforeItAsksTheWorkspace(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	eleven := strings.TrimSuffix(strings.Repeat("a=b,", 11), ",")
	w.Transcript(t, "get-usage.golden", []clitest.Turn{
		{Name: "without a kind", Args: "get"},
		{Name: "two kinds", Args: "get sandbox/web sandboxset/warm"},
		{Name: "a name and a slash", Args: "get sandbox web sandboxset/warm"},
		{Name: "a name that cannot be", Args: "get sandbox My_App"},
		{Name: "a set without parentheses", Args: "get sandboxes -l 'env in prod'"},
		{Name: "eleven requirements", Args: "get sandboxes -l " + eleven},
		{Name: "a selector that does not parse", Args: "get sandboxes -l env=prod=test"},
		{Name: "a field that is not served", Args: "get sandboxes --field-selector status.phase=Ready"},
		{Name: "a field selector that does not parse", Args: "get sandboxes --field-selector metadata.name"},
		{Name: "a name and a selector", Args: "get sandbox web -l env=prod"},
		{Name: "a name and all namespaces", Args: "get sandbox web -A"},
		{Name: "a format that there is not", Args: "get sandboxes -o xml"},
		{Name: "a JSONPath without one", Args: "get sandboxes -o jsonpath"},
		{Name: "a table with an argument", Args: "get sandboxes -o table=x"},
		{Name: "a JSONPath that does not parse", Args: "get sandboxes -o jsonpath={.items[}"},
		{Name: "columns that do not parse", Args: "get sandboxes -o custom-columns=NAME"},
		{Name: "a path that is none", Args: "get sandboxes -o custom-columns=NAME:{.a}{.b}"},
		{Name: "labels in JSON", Args: "get sandboxes -o json -L env"},
		{Name: "a column of a label that cannot be", Args: "get sandboxes -L a/b/c"},
		{Name: "a path to sort by that is none", Args: "get sandboxes --sort-by {"},
		{Name: "a file of columns that is not there", Args: "get sandboxes -o custom-columns-file=/nowhere/columns"},
		{Name: "a page of less than nothing", Args: "get sandboxes --chunk-size -1"},
		{Name: "a limit of less than nothing", Args: "get sandboxes --limit -1"},
		{Name: "a limit and names", Args: "get sandbox web --limit 1"},
		{Name: "a limit and a watch", Args: "get sandboxes --limit 1 -w"},
		{Name: "a watch of two names", Args: "get sandbox web api -w"},
		{Name: "a kind that is a flag", Args: "get web --resource sandboxes.sandbar.dev"},
	})
	if asked := s.Requests(); len(asked) > 0 {
		t.Errorf("it asked the workspace: %v", asked)
	}
}

func TestGetSaysWhatIsMissingInTheWorkspace(t *testing.T) {
	w := newWorld(t)
	w.Stocked(t)
	w.Transcript(t, "get-missing.golden", []clitest.Turn{
		{Name: "a kind that is not there", Args: "get pods"},
		{Name: "a kind that is almost there", Args: "get sandboxs"},
		{Name: "a group that is not there", Args: "get things.example.com"},
	})
	w.Has(nil)
	w.Transcript(t, "get-unbound.golden", []clitest.Turn{{Name: "a workspace without a binding", Args: "get sandboxes"}})
	for name, err := range map[string]*apierrors.StatusError{
		"forbidden":    apierrors.NewForbidden(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxes"}, "", errors.New("access denied")),
		"unauthorized": apierrors.NewUnauthorized("Unauthorized"),
	} {
		s := w.Stocked(t)
		s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/sandboxes") {
				objecttest.Refuse(rw, err)
				return true
			}
			return false
		})
		w.Transcript(t, "get-"+name+".golden", []clitest.Turn{{Name: name, Args: "get sandboxes"}})
	}
}

func TestGetReadsTemplatesFromFiles(t *testing.T) {
	w := newWorld(t)
	w.Stocked(t)
	dir := t.TempDir()
	clitest.Put(t, dir, "columns", "N:.metadata.name\n")
	clitest.Put(t, dir, "path", "{.metadata.name}")
	clitest.Put(t, dir, "large", strings.Repeat("x", MaxTemplateFile+1))
	for args, want := range map[string]string{
		"-o custom-columns-file=" + filepath.Join(dir, "columns"): "N\nweb\n",
		"-o jsonpath-file=" + filepath.Join(dir, "path"):          "web",
	} {
		if code, stdout, stderr := w.Run(t, append([]string{"get", "sandbox", "web"}, strings.Fields(args)...)...); code != 0 || stdout != want {
			t.Errorf("%s: %q %s", args, stdout, stderr)
		}
	}
	if code, _, stderr := w.Run(t, "get", "sandboxes", "-o", "jsonpath-file="+filepath.Join(dir, "large")); code != cli.ExitUsage || !strings.Contains(stderr, "the file has more than 1048576 bytes") {
		t.Errorf("%d %s", code, stderr)
	}
}

// A person may redirect the list into a program: what the server says beside it does not go there.
func TestWarningsOfTheServerGoToStderrOnce(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	s.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Add("Warning", `299 - "this kind is deprecated"`)
		return false
	})
	_, stdout, stderr := w.Run(t, "get", "sandboxes", "-o", "name")
	if strings.Contains(stdout, "deprecated") || strings.Count(stderr, "Warning: this kind is deprecated\n") != 1 {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestGetWatchesUntilItIsInterrupted(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.Begin(ctx, strings.NewReader(""), "get", "sandboxes", "-w", "-l", "env=prod")
	clitest.Await(t, out, "web ")
	obj := s.Object("sandboxes", "default", "web")
	obj.Object["status"].(map[string]any)["phase"] = "Degraded"
	s.Put("sandboxes", obj.Object)
	clitest.Await(t, out, "Degraded")
	s.Remove("sandboxes", "default", "web")
	clitest.Await(t, out, "Deleted")
	cancel()
	if code := <-ended; code != cli.ExitInterrupted || errs.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || strings.Count(out.String(), "NAME") != 1 {
		t.Fatalf("want one line of names, and one for the list and each of two changes:\n%s", out)
	}
	// A column that a long value has widened stays so.
	if strings.Index(lines[3], "30d") != strings.Index(lines[2], "30d") {
		t.Errorf("the columns do not stand below each other:\n%s", out)
	}
}

func TestGetWatchesOneObjectAsDocuments(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, _, ended := w.Begin(ctx, strings.NewReader(""), "get", "sandbox", "web", "-w", "-o", "jsonpath={.metadata.name}={.status.phase};")
	clitest.Await(t, out, "web=Ready;")
	s.Remove("sandboxes", "default", "api") // another one
	obj := s.Object("sandboxes", "default", "web")
	obj.Object["status"].(map[string]any)["phase"] = "Suspended"
	s.Put("sandboxes", obj.Object)
	clitest.Await(t, out, "web=Suspended;")
	cancel()
	<-ended
	if got := out.String(); got != "web=Ready;web=Suspended;" {
		t.Errorf("%q", got)
	}
}

func TestAWatchThatBeginsWithoutAnObjectSeesTheFirst(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Put("sandboxsets", map[string]any{"kind": "SandboxSet", "metadata": map[string]any{"name": "first"}, "spec": map[string]any{"replicas": int64(7)}})
		}
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	out, _, ended := w.Begin(ctx, strings.NewReader(""), "get", "sandboxsets", "--watch-only")
	clitest.Await(t, out, "first")
	cancel()
	<-ended
	if got := strings.Fields(out.String()); strings.Join(got, " ") != "NAME DESIRED first 7" {
		t.Errorf("%v", got)
	}
}
