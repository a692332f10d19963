// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// diffOf returns the difference of a conflict, with VERSION for versions and TIME for times.
func diffOf(t *testing.T, err error) string {
	t.Helper()
	var stale *ConflictError
	if !errors.As(err, &stale) {
		t.Fatalf("%v is not a conflict", err)
	}
	text, err := stale.Diff()
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(text, "TIME")
	return regexp.MustCompile(`version \d+`).ReplaceAllString(text, "version N")
}

func sized(name, display string, tags ...any) map[string]any {
	obj := sandbox(name, map[string]any{"env": "test"})
	obj["spec"] = map[string]any{"displayName": display, "tags": tags}
	return obj
}

func TestAConflictShowsBothChangesOfTheVersionThatBothBeganFrom(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sized("web", "Shop", "a"))
	edit(server, "web", "kubectl-edit", 12*time.Minute, func(o map[string]any) {
		o["spec"].(map[string]any)["displayName"] = "Theirs"
		o["spec"].(map[string]any)["tags"] = []any{"a", "b"}
	}, `{"f:spec":{"f:displayName":{},"f:tags":{}}}`)
	_, err := c.Patch(t.Context(), k, known, map[string]any{
		"spec": map[string]any{"displayName": "Ours"}, "metadata": map[string]any{"labels": map[string]any{"env": nil, "team": "a"}},
	}, WriteOptions{Version: known.GetResourceVersion()})
	want := `# web has changed since version N:
#   spec.displayName by kubectl-edit at TIME, 12m ago
#   spec.tags by kubectl-edit at TIME, 12m ago
--- version N
+++ version N
@@ -2,8 +2,9 @@
   labels:
     env: test
 spec:
-  displayName: Shop
+  displayName: Theirs
   tags:
   - a
+  - b
 status:
   phase: Ready
# Your change of version N:
--- version N
+++ yours
@@ -1,8 +1,8 @@
 metadata:
   labels:
-    env: test
+    team: a
 spec:
-  displayName: Shop
+  displayName: Ours
   tags:
   - a
 status:
# Changed by both, to different values: spec.displayName
`
	if diff := cmp.Diff(want, diffOf(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What a server prints as a difference is one for other programs: patch makes the caller's version of it.
func TestPatchReadsTheDifference(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed")
	}
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sized("web", "Shop", "a"))
	edit(server, "web", "kubectl-edit", time.Second, func(o map[string]any) { o["status"] = map[string]any{"phase": "Failed"} }, `{}`)
	_, err := c.Patch(t.Context(), k, known, map[string]any{"spec": map[string]any{"displayName": "Ours"}}, WriteOptions{Version: known.GetResourceVersion()})
	_, ours, _ := strings.Cut(diffOf(t, err), "# Your change")
	file := filepath.Join(t.TempDir(), "web.yaml")
	text, err := yaml.Marshal(contentOf(known))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	patch := exec.CommandContext(t.Context(), "patch", file)
	patch.Stdin = strings.NewReader("# Your change" + ours)
	if out, err := patch.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if got, _ := os.ReadFile(file); !strings.Contains(string(got), "displayName: Ours\n") {
		t.Errorf("%s", got)
	}
}

func TestEachWriteShowsItsChange(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	known := server.Put("sandboxes", sized("web", "Shop"))
	version := known.GetResourceVersion()
	server.Put("sandboxes", sized("web", "Theirs"))
	applied := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web", "resourceVersion": version}, "spec": map[string]any{"displayName": "Ours"}}}
	for name, write := range map[string]struct {
		do   func() error
		want string
	}{
		"label": {func() error {
			_, _, err := c.Mark(t.Context(), k, "default", "web", Labels, Pairs{Set: map[string]string{"env": "prod"}}, true, WriteOptions{Version: version})
			return err
		}, "+    env: prod\n"},
		"annotate": {func() error {
			_, _, err := c.Mark(t.Context(), k, "default", "web", Annotations, Pairs{Set: map[string]string{"note": "x"}}, true, WriteOptions{Version: version})
			return err
		}, "+    note: x\n"},
		"apply": {func() error {
			_, _, err := c.Apply(t.Context(), k, "default", applied, false, WriteOptions{})
			return err
		}, "+  displayName: Ours\n"},
		"delete": {func() error { return c.Delete(t.Context(), k, known, WriteOptions{Version: version}) }, ""},
	} {
		got := diffOf(t, write.do())
		theirs, ours, shown := strings.Cut(got, "# Your change of version N:\n")
		if !strings.Contains(theirs, "+  displayName: Theirs\n") || shown != (write.want != "") || !strings.Contains(ours, write.want) {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// etcd keeps former versions for some minutes.
func TestAVersionThatTheServerHasNoMoreLeavesYourChangeToCompare(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	version := server.Put("sandboxes", sized("web", "Shop")).GetResourceVersion()
	edit(server, "web", "kubectl-edit", 12*time.Minute, func(o map[string]any) { o["spec"] = map[string]any{"displayName": "Theirs"} }, `{}`)
	server.Forget()
	_, _, err := c.Mark(t.Context(), k, "default", "web", Labels, Pairs{Set: map[string]string{"env": "prod"}}, true, WriteOptions{Version: version})
	want := `# The server does not have version N of web any more.
# The last change: by kubectl-edit at TIME, 12m ago
# Your change, compared with version N:
--- version N
+++ yours
@@ -1,6 +1,6 @@
 metadata:
   labels:
-    env: test
+    env: prod
 spec:
   displayName: Theirs
 status:
`
	if diff := cmp.Diff(want, diffOf(t, err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	err = c.Delete(t.Context(), k, server.Object("sandboxes", "default", "web"), WriteOptions{Version: version})
	if got := diffOf(t, err); !strings.HasSuffix(got, "12m ago\n") {
		t.Errorf("%s", got)
	}
	server.Remove("sandboxes", "default", "web")
	if text, err := (&ConflictError{Gone: true}).Diff(); text != "" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}
