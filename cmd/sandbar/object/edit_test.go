// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestApplyMakesObjectsAsTheyAreInFiles(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	const one = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: one}\nspec: {displayName: One}\n"
	const set = "apiVersion: sandbar.dev/v1alpha1\nkind: SandboxSet\nmetadata: {name: pool, namespace: other}\nspec: {replicas: 2}\n"
	stale := strings.Replace(one, "name: one", "name: api, resourceVersion: \""+s.Object("sandboxes", "default", "api").GetResourceVersion()+"\"", 1)
	api := s.Object("sandboxes", "default", "api")
	api.SetLabels(map[string]string{"env": "prod"})
	s.Put("sandboxes", api.Object)
	w.Transcript(t, "apply.golden", []clitest.Turn{
		{Name: "two kinds, one of which is in another namespace", Args: "apply -f -", Input: one + "---\n" + set},
		{Name: "the same again", Args: "apply -f -", Input: one + "---\n" + set},
		{Name: "another value, as a dry run", Args: "apply -f - --dry-run", Input: strings.Replace(one, "One", "Two", 1)},
		{Name: "another value, for a program", Args: "apply -f - -o jsonpath={.spec.displayName}", Input: strings.Replace(one, "One", "Two", 1)},
		{Name: "a list", Args: "apply -f -", Input: "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(one), "\n", "\n  ")},
		{Name: "a version that it does not have any more", Args: "apply -f -", Input: stale},
		{Name: "a namespace that the call contradicts", Args: "apply -n default -f -", Input: set},
		{Name: "a kind that is not there", Args: "apply -f -", Input: "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"},
		{Name: "a name that cannot be", Args: "apply -f -", Input: strings.Replace(one, "name: one", "name: My_App", 1)},
		{Name: "without a file", Args: "apply"},
		{Name: "with an argument", Args: "apply sandbox.yaml"},
	})
	s.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		objecttest.Refuse(rw, apierrors.NewApplyConflict([]metav1.StatusCause{{
			Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "kubectl-edit" using sandbar.dev/v1alpha1`, Field: ".spec.displayName",
		}}, "Apply failed with 1 conflict"))
		return true
	})
	w.Transcript(t, "apply-conflict.golden", []clitest.Turn{{Name: "a field of another program", Args: "apply -f -", Input: one}})
}

// editor makes the editor a program that changes the file by a sed script.
func editor(t *testing.T, script string) {
	t.Helper()
	t.Setenv("KUBE_EDITOR", "")
	t.Setenv("EDITOR", "sed -i -e '"+script+"'")
}

func TestEditChangesWhatWasEdited(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	t.Setenv("TMPDIR", t.TempDir())
	edit := func(script string, args ...string) string {
		editor(t, script)
		_, stdout, stderr := w.Run(t, append([]string{"edit", "sandbox", "web"}, args...)...)
		return stdout + stderr
	}
	if got := edit("s/node-22/node-24/"); got != "sandbox.sandbar.dev/web edited\n" || TemplateOf(s.Object("sandboxes", "default", "web")) != "node-24" {
		t.Errorf("%s", got)
	}
	if got := edit("s/node-24/node-26/", "--dry-run"); got != "sandbox.sandbar.dev/web edited (dry run: nothing was changed)\n" || TemplateOf(s.Object("sandboxes", "default", "web")) != "node-24" {
		t.Errorf("%s", got)
	}
	for _, script := range []string{"s/x/x/", "d"} {
		if got := edit(script); got != "Nothing was edited, and nothing is changed.\n" {
			t.Errorf("%s: %s", script, got)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v %v", left, err)
	}
}

func TestAnEditThatIsNotTakenIsKept(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"another name":  {"s/name:.web/name:\\x20other/", "the kind, the name and the namespace of an object do not change: create another one instead. Your changes are in FILE\n"},
		"not YAML":      {"s/kind:/:::kind/", "what was edited is not YAML: "},
		"not an object": {"1,$s/.*/text/", "what was edited is not an object. Your changes are in FILE\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Stocked(t)
			t.Setenv("TMPDIR", t.TempDir())
			editor(t, c.script)
			code, _, stderr := w.Run(t, "edit", "sandbox", "web")
			file := regexp.MustCompile(`Your changes are in (\S+)\n`).FindStringSubmatch(stderr)
			if code != cli.ExitFailure || len(file) == 0 || !strings.HasPrefix(strings.Replace(stderr, file[1], "FILE", 1), "sandbar: "+c.want) {
				t.Fatalf("%d %s", code, stderr)
			}
			if _, err := os.Stat(file[1]); err != nil {
				t.Error(err)
			}
		})
	}
}

// Somebody changes the object while it is in the editor.
func TestAnEditOfAStaleObjectNamesTheOthersChanges(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	t.Setenv("TMPDIR", t.TempDir())
	meanwhile := func() {
		obj := s.Object("sandboxes", "default", "web")
		labels := obj.GetLabels()
		labels["env"] += "x"
		obj.SetLabels(labels)
		s.Put("sandboxes", obj.Object)
	}
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			meanwhile()
		}
		return false
	})
	editor(t, "s/node-22/node-24/")
	code, _, stderr := w.Run(t, "edit", "sandbox", "web")
	if code != cli.ExitFailure || !regexp.MustCompile(`^sandbar: web has changed since version \d+: metadata\.labels\.env\. Edit it again, or repeat with --force-conflicts\. Your changes are in \S+\n$`).MatchString(stderr) {
		t.Errorf("%d %s", code, stderr)
	}
	if files, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*", "web.yaml")); len(files) != 1 {
		t.Errorf("%v", files)
	}
	if code, stdout, stderr := w.Run(t, "edit", "sandbox", "web", "--force-conflicts"); code != 0 {
		t.Errorf("%s %s", stdout, stderr)
	}
	if web := s.Object("sandboxes", "default", "web"); TemplateOf(web) != "node-24" || web.GetLabels()["env"] != "prodxx" {
		t.Errorf("both changes are to be there: %v", web)
	}
}

// An editor may lie in a folder whose name has spaces, and its name may be a line of the shell.
func TestEditTakesAnEditorAsGitAndKubectlDo(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	t.Setenv("TMPDIR", t.TempDir())
	dir := filepath.Join(t.TempDir(), "my programs")
	clitest.Plant(t, dir, map[string]string{"ed": "+#!/bin/sh\nfor last; do :; done\nexec sed -i -e s/node-[0-9a-z]*/node-$NEXT/ \"$last\"\n"})
	clitest.Plant(t, dir, map[string]string{"vi": "-> ed"})
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("KUBE_EDITOR", "")
	ed := filepath.Join(dir, "ed")
	for next, editor := range map[string]string{
		"path": ed, "quoted": "'" + ed + "' --wait", "escaped": strings.ReplaceAll(ed, " ", `\ `), "option": "ed --wait", "space": " ",
	} {
		t.Setenv("EDITOR", editor)
		t.Setenv("NEXT", next)
		if code, _, stderr := w.Run(t, "edit", "sandbox", "web"); code != 0 || TemplateOf(s.Object("sandboxes", "default", "web")) != "node-"+next {
			t.Errorf("%q: exit code %d, %q, the template is %q", editor, code, stderr, TemplateOf(s.Object("sandboxes", "default", "web")))
		}
	}
}

func TestEditRefusesMistakes(t *testing.T) {
	w := newWorld(t)
	w.Stocked(t)
	t.Setenv("KUBE_EDITOR", "/nowhere/editor --wait")
	w.Transcript(t, "edit.golden", []clitest.Turn{
		{Name: "an editor that is not there", Args: "edit sandbox web"},
		{Name: "an object that is not there", Args: "edit sandbox wbe"},
		{Name: "two objects", Args: "edit sandbox web api"},
		{Name: "no object", Args: "edit sandboxes"},
	})
}

func TestSuspendHasAVersionAsAPrecondition(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	version := s.Object("sandboxrunners", "default", "app").GetResourceVersion()
	obj := s.Object("sandboxrunners", "default", "app")
	obj.Object["spec"].(map[string]any)["toolchain"] = "python"
	now := s.Put("sandboxrunners", obj.Object).GetResourceVersion()
	code, _, stderr := w.Run(t, "suspend", "app", "--wait=false", "--resource-version", version)
	if code != cli.ExitFailure || stderr != "sandbar: app has changed since version "+version+": spec.toolchain. Read it again, and repeat the command with version "+now+"\n" {
		t.Errorf("%d %s", code, stderr)
	}
	if code, _, stderr := w.Run(t, "suspend", "app", "--wait=false", "--resource-version", now); code != 0 {
		t.Errorf("%s", stderr)
	}
	if suspended, _ := s.Object("sandboxrunners", "default", "app").Object["spec"].(map[string]any)["suspended"].(bool); !suspended {
		t.Error("it is not suspended")
	}
}
