// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

func TestGetPrintsWhatAPersonAsksFor(t *testing.T) {
	w := newWorld(t)
	w.stocked(t)
	w.transcript(t, "get.golden", []turn{
		{name: "a list, the oldest first", args: "get sandboxes"},
		{name: "the same by other words", args: "list sbx --no-headers"},
		{name: "a kind with other columns", args: "get sandboxsets"},
		{name: "a toolchain, and a state that a terminal would obey", args: "ls sandboxrunner"},
		{name: "all columns", args: "get sandboxes -o wide"},
		{name: "all namespaces", args: "get sandboxes -A"},
		{name: "another namespace", args: "get sandboxes -n other"},
		{name: "by a label", args: "get sandboxes -l env=prod"},
		{name: "by a set, in all namespaces, with a column", args: "get sandboxes -A -l 'env in (prod,test)' -L env,tier"},
		{name: "by the absence of a label", args: "get sandboxes -l '!tier' --show-labels"},
		{name: "by a field", args: "get sandboxes --field-selector metadata.name=api"},
		{name: "nothing matches", args: "get sandboxes -l env=stage"},
		{name: "nothing matches a label and a field", args: "get sandboxes -l env=stage --field-selector metadata.name=web"},
		{name: "nothing in a namespace", args: "get sandboxsets -n other"},
		{name: "nothing in any namespace", args: "get sandboxsets -A -l env=prod"},
		{name: "nothing, for a program", args: "get sandboxes -l env=stage -o json"},
		{name: "one", args: "get sandbox web"},
		{name: "one by KIND/NAME", args: "get sbx/web --no-headers"},
		{name: "two, in the order of the call", args: "get sandbox web api -o name"},
		{name: "two, one of which is not there", args: "get sandbox wbe api -o name"},
		{name: "one that is of another kind", args: "get sandbox app"},
		{name: "one that is not there", args: "get sandboxset wram"},
		{name: "sorted by a field, without a value first", args: "get sandboxes -A -o name --sort-by .spec.lifecycle.shutdownTime"},
		{name: "sorted by name", args: "get sandboxes -A -o name --sort-by {.metadata.name}"},
		{name: "columns of your own", args: "get sandboxes -o custom-columns=NAME:.metadata.name,ENV:.metadata.labels.env,TIER:.metadata.labels.tier"},
		{name: "a JSONPath", args: "get sandboxes -o jsonpath='{.items[*].metadata.name}'"},
		{name: "a JSONPath of one", args: "get sandbox web -o jsonpath={.status.phase}"},
		{name: "a Go template", args: "get sandbox web -o go-template='{{.kind}}'"},
		{name: "one in YAML", args: "get sandbox api -o yaml"},
		{name: "a limit", args: "get sandboxes --limit 1"},
		{name: "small pages", args: "get sandboxes --chunk-size 1 -o name"},
	})
}

func TestGetRefusesMistakesBeforeItAsksTheWorkspace(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	eleven := strings.TrimSuffix(strings.Repeat("a=b,", 11), ",")
	w.transcript(t, "get-usage.golden", []turn{
		{name: "without a kind", args: "get"},
		{name: "two kinds", args: "get sandbox/web sandboxset/warm"},
		{name: "a name and a slash", args: "get sandbox web sandboxset/warm"},
		{name: "a name that cannot be", args: "get sandbox My_App"},
		{name: "a set without parentheses", args: "get sandboxes -l 'env in prod'"},
		{name: "eleven requirements", args: "get sandboxes -l " + eleven},
		{name: "a selector that does not parse", args: "get sandboxes -l env=prod=test"},
		{name: "a field that is not served", args: "get sandboxes --field-selector status.phase=Ready"},
		{name: "a field selector that does not parse", args: "get sandboxes --field-selector metadata.name"},
		{name: "a name and a selector", args: "get sandbox web -l env=prod"},
		{name: "a name and all namespaces", args: "get sandbox web -A"},
		{name: "a format that there is not", args: "get sandboxes -o xml"},
		{name: "a JSONPath without one", args: "get sandboxes -o jsonpath"},
		{name: "a table with an argument", args: "get sandboxes -o table=x"},
		{name: "a JSONPath that does not parse", args: "get sandboxes -o jsonpath={.items[}"},
		{name: "columns that do not parse", args: "get sandboxes -o custom-columns=NAME"},
		{name: "a path that is none", args: "get sandboxes -o custom-columns=NAME:{.a}{.b}"},
		{name: "labels in JSON", args: "get sandboxes -o json -L env"},
		{name: "a column of a label that cannot be", args: "get sandboxes -L a/b/c"},
		{name: "a path to sort by that is none", args: "get sandboxes --sort-by {"},
		{name: "a file of columns that is not there", args: "get sandboxes -o custom-columns-file=/nowhere/columns"},
		{name: "a page of less than nothing", args: "get sandboxes --chunk-size -1"},
		{name: "a limit of less than nothing", args: "get sandboxes --limit -1"},
		{name: "a limit and names", args: "get sandbox web --limit 1"},
		{name: "a limit and a watch", args: "get sandboxes --limit 1 -w"},
		{name: "a watch of two names", args: "get sandbox web api -w"},
		{name: "a kind that is a flag", args: "get web --resource sandboxes.sandbar.dev"},
	})
	if asked := s.Requests(); len(asked) > 0 {
		t.Errorf("it asked the workspace: %v", asked)
	}
}

func TestGetSaysWhatIsMissingInTheWorkspace(t *testing.T) {
	w := newWorld(t)
	w.stocked(t)
	w.transcript(t, "get-missing.golden", []turn{
		{name: "a kind that is not there", args: "get pods"},
		{name: "a kind that is almost there", args: "get sandboxs"},
		{name: "a group that is not there", args: "get things.example.com"},
	})
	w.has(nil)
	w.transcript(t, "get-unbound.golden", []turn{{name: "a workspace without a binding", args: "get sandboxes"}})
	for name, err := range map[string]*apierrors.StatusError{
		"forbidden":    apierrors.NewForbidden(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxes"}, "", errors.New("access denied")),
		"unauthorized": apierrors.NewUnauthorized("Unauthorized"),
	} {
		s := w.stocked(t)
		s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/sandboxes") {
				objecttest.Refuse(rw, err)
				return true
			}
			return false
		})
		w.transcript(t, "get-"+name+".golden", []turn{{name: name, args: "get sandboxes"}})
	}
}

func TestGetReadsTemplatesFromFiles(t *testing.T) {
	w := newWorld(t)
	w.stocked(t)
	dir := t.TempDir()
	put(t, dir, "columns", "N:.metadata.name\n")
	put(t, dir, "path", "{.metadata.name}")
	put(t, dir, "large", strings.Repeat("x", maxTemplateFile+1))
	for args, want := range map[string]string{
		"-o custom-columns-file=" + filepath.Join(dir, "columns"): "N\nweb\n",
		"-o jsonpath-file=" + filepath.Join(dir, "path"):          "web",
	} {
		if code, stdout, stderr := w.run(t, append([]string{"get", "sandbox", "web"}, strings.Fields(args)...)...); code != 0 || stdout != want {
			t.Errorf("%s: %q %s", args, stdout, stderr)
		}
	}
	if code, _, stderr := w.run(t, "get", "sandboxes", "-o", "jsonpath-file="+filepath.Join(dir, "large")); code != exitUsage || !strings.Contains(stderr, "the file has more than 1048576 bytes") {
		t.Errorf("%d %s", code, stderr)
	}
}

// A person may redirect the list into a program: what the server says beside it does not go there.
func TestWarningsOfTheServerGoToStderrOnce(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	s.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Add("Warning", `299 - "this kind is deprecated"`)
		return false
	})
	_, stdout, stderr := w.run(t, "get", "sandboxes", "-o", "name")
	if strings.Contains(stdout, "deprecated") || strings.Count(stderr, "Warning: this kind is deprecated\n") != 1 {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

func TestGetWatchesUntilItIsInterrupted(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, errs, ended := w.begin(ctx, strings.NewReader(""), "get", "sandboxes", "-w", "-l", "env=prod")
	await(t, out, "web ")
	obj := s.Object("sandboxes", "default", "web")
	obj.Object["status"].(map[string]any)["phase"] = "Degraded"
	s.Put("sandboxes", obj.Object)
	await(t, out, "Degraded")
	s.Remove("sandboxes", "default", "web")
	await(t, out, "Deleted")
	cancel()
	if code := <-ended; code != exitInterrupted || errs.String() != "" {
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
	s := w.stocked(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, _, ended := w.begin(ctx, strings.NewReader(""), "get", "sandbox", "web", "-w", "-o", "jsonpath={.metadata.name}={.status.phase};")
	await(t, out, "web=Ready;")
	s.Remove("sandboxes", "default", "api") // another one
	obj := s.Object("sandboxes", "default", "web")
	obj.Object["status"].(map[string]any)["phase"] = "Suspended"
	s.Put("sandboxes", obj.Object)
	await(t, out, "web=Suspended;")
	cancel()
	<-ended
	if got := out.String(); got != "web=Ready;web=Suspended;" {
		t.Errorf("%q", got)
	}
}

func TestAWatchThatBeginsWithoutAnObjectSeesTheFirst(t *testing.T) {
	w := newWorld(t)
	s := w.withObjects(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Put("sandboxsets", map[string]any{"kind": "SandboxSet", "metadata": map[string]any{"name": "first"}, "spec": map[string]any{"replicas": int64(7)}})
		}
		return false
	})
	ctx, cancel := context.WithCancel(t.Context())
	out, _, ended := w.begin(ctx, strings.NewReader(""), "get", "sandboxsets", "--watch-only")
	await(t, out, "first")
	cancel()
	<-ended
	if got := strings.Fields(out.String()); strings.Join(got, " ") != "NAME DESIRED first 7" {
		t.Errorf("%v", got)
	}
}

func TestHelpHasTheCommandsInGroups(t *testing.T) {
	w := newWorld(t)
	_, stdout, _ := w.run(t, "--help")
	stdout, _, _ = strings.Cut(stdout, "\nFlags:")
	name := filepath.Join("testdata", "help.golden")
	if *update {
		if err := os.WriteFile(name, []byte(stdout), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != stdout {
		t.Errorf("%v\n%s", err, stdout)
	}
	if strings.Contains(stdout, "Additional Commands") {
		t.Error("a command is in no group")
	}
}
