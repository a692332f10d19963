// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

// renamed gives an object another display name, as another person's program did twelve days ago, and returns its version
// before.
func renamed(s *objecttest.Server, resource, name, display string) string {
	obj := s.Object(resource, "default", name)
	before := obj.GetResourceVersion()
	_ = unstructured.SetNestedField(obj.Object, display, "spec", "displayName") // spec has fields
	at, err := time.Parse(time.RFC3339, clitest.DaysAgo(12))
	if err != nil {
		panic(err)
	}
	written := metav1.NewTime(at)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "kubectl-edit", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "sandbar.dev/v1alpha1", Time: &written,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:displayName":{}}}`),
	}})
	s.Put(resource, obj.Object)
	return before
}

func TestUpdateReplacesObjectsInTheVersionThatWasRead(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	version := renamed(s, "sandboxes", "web", "Shop")
	now := s.Object("sandboxes", "default", "web").GetResourceVersion()
	const web = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: web, labels: {env: live}}\nspec: {displayName: Ours}\n"
	in := func(version string) string {
		return strings.Replace(web, "name: web", `name: web, resourceVersion: "`+version+`"`, 1)
	}
	w.Transcript(t, "update.golden", []clitest.Turn{
		{Name: "a version that it does not have any more", Args: "update -f -", Input: in(version)},
		{Name: "the same, with the three-way difference", Args: "update -f - -o diff", Input: in(version)},
		{Name: "a version of the call", Args: "update -f - --resource-version " + version, Input: web},
		{Name: "a dry run", Args: "update -f - --dry-run", Input: in(now)},
		{Name: "the version that it has", Args: "update -f - -o diff", Input: in(now)},
		{Name: "what it has now", Args: "get sandbox web -o custom-columns=LABELS:.metadata.labels,NAME:.spec.displayName,TEMPLATE:.spec.template,STATE:.status.phase"},
		{Name: "any version", Args: "update -f - --force-conflicts -o jsonpath={.spec.displayName}", Input: strings.Replace(in(version), "Ours", "Forced", 1)},
		{Name: "no version", Args: "update -f -", Input: web},
		{Name: "any version, and one", Args: "update -f - --force-conflicts --resource-version 7", Input: web},
		{Name: "a version of two", Args: "update -f - --resource-version 7", Input: web + "---\n" + web},
		{Name: "one that is not there", Args: "update -f - --force-conflicts", Input: strings.Replace(web, "name: web", "name: wbe", 1)},
		{Name: "a name that cannot be", Args: "update -f - --force-conflicts", Input: strings.Replace(web, "name: web", "name: My_App", 1)},
		{Name: "without a file", Args: "update"},
	})
}

func TestAStaleVersionIsShownAsAThreeWayDifference(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	version, runners := renamed(s, "sandboxes", "web", "Shop"), renamed(s, "sandboxrunners", "app", "Shop")
	const applied = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: web, resourceVersion: \"VERSION\"}\nspec: {displayName: Ours}\n"
	w.Transcript(t, "diff.golden", []clitest.Turn{
		{Name: "label", Args: "label sandbox web env=live --overwrite -o diff --resource-version " + version},
		{Name: "annotate", Args: "annotate sandbox web note=x -o diff --resource-version " + version},
		{Name: "apply", Args: "apply -f - -o diff", Input: strings.Replace(applied, "VERSION", version, 1)},
		{Name: "delete", Args: "delete sandbox web -o diff --resource-version " + version},
		{Name: "suspend", Args: "suspend app -o diff --wait=false --resource-version " + runners},
		{Name: "a version that the server never had", Args: "label sandbox web env=live --overwrite -o diff --resource-version 7"},
		{Name: "a version that the object has", Args: "label sandbox web seen=yes -o diff --resource-version " + s.Object("sandboxes", "default", "web").GetResourceVersion()},
		{Name: "a format that suspend does not have", Args: "suspend app -o yaml"},
		{Name: "a format that get does not have", Args: "get sandboxes -o diff"},
		{Name: "a format that create does not have", Args: "create sandbox other -o diff"},
	})
}

func TestAnEditOfAStaleObjectIsShownAsAThreeWayDifference(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	t.Setenv("TMPDIR", t.TempDir())
	renamed(s, "sandboxes", "web", "Shop")
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			renamed(s, "sandboxes", "web", "Theirs")
		}
		return false
	})
	editor(t, "s/Shop/Ours/")
	code, out, errs := w.Run(t, "edit", "sandbox", "web", "-o", "diff")
	if code != cli.ExitFailure || !strings.Contains(errs, "Edit it again, or repeat with --force-conflicts. Your changes are in ") {
		t.Errorf("%d %s", code, errs)
	}
	for _, want := range []string{"-  displayName: Shop\n+  displayName: Theirs\n", "-  displayName: Shop\n+  displayName: Ours\n", "# Changed by both, to different values: spec.displayName\n", "by kubectl-edit at "} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}
