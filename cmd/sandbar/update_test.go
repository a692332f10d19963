// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// renamed gives an object another display name, as another person's program did twelve days ago, and returns its version
// before.
func renamed(s *objecttest.Server, resource, name, display string) string {
	obj := s.Object(resource, "default", name)
	before := obj.GetResourceVersion()
	_ = unstructured.SetNestedField(obj.Object, display, "spec", "displayName") // spec has fields
	at, err := time.Parse(time.RFC3339, daysAgo(12))
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
	s := w.stocked(t)
	version := renamed(s, "sandboxes", "web", "Shop")
	now := s.Object("sandboxes", "default", "web").GetResourceVersion()
	const web = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: web, labels: {env: live}}\nspec: {displayName: Ours}\n"
	in := func(version string) string {
		return strings.Replace(web, "name: web", `name: web, resourceVersion: "`+version+`"`, 1)
	}
	w.transcript(t, "update.golden", []turn{
		{name: "a version that it does not have any more", args: "update -f -", input: in(version)},
		{name: "the same, with the three-way difference", args: "update -f - -o diff", input: in(version)},
		{name: "a version of the call", args: "update -f - --resource-version " + version, input: web},
		{name: "a dry run", args: "update -f - --dry-run", input: in(now)},
		{name: "the version that it has", args: "update -f - -o diff", input: in(now)},
		{name: "what it has now", args: "get sandbox web -o custom-columns=LABELS:.metadata.labels,NAME:.spec.displayName,TEMPLATE:.spec.template,STATE:.status.phase"},
		{name: "any version", args: "update -f - --force-conflicts -o jsonpath={.spec.displayName}", input: strings.Replace(in(version), "Ours", "Forced", 1)},
		{name: "no version", args: "update -f -", input: web},
		{name: "any version, and one", args: "update -f - --force-conflicts --resource-version 7", input: web},
		{name: "a version of two", args: "update -f - --resource-version 7", input: web + "---\n" + web},
		{name: "one that is not there", args: "update -f - --force-conflicts", input: strings.Replace(web, "name: web", "name: wbe", 1)},
		{name: "a name that cannot be", args: "update -f - --force-conflicts", input: strings.Replace(web, "name: web", "name: My_App", 1)},
		{name: "without a file", args: "update"},
	})
}

func TestAStaleVersionIsShownAsAThreeWayDifference(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	version, runners := renamed(s, "sandboxes", "web", "Shop"), renamed(s, "sandboxrunners", "app", "Shop")
	const applied = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: web, resourceVersion: \"VERSION\"}\nspec: {displayName: Ours}\n"
	w.transcript(t, "diff.golden", []turn{
		{name: "label", args: "label sandbox web env=live --overwrite -o diff --resource-version " + version},
		{name: "annotate", args: "annotate sandbox web note=x -o diff --resource-version " + version},
		{name: "apply", args: "apply -f - -o diff", input: strings.Replace(applied, "VERSION", version, 1)},
		{name: "delete", args: "delete sandbox web -o diff --resource-version " + version},
		{name: "suspend", args: "suspend app -o diff --wait=false --resource-version " + runners},
		{name: "a version that the server never had", args: "label sandbox web env=live --overwrite -o diff --resource-version 7"},
		{name: "a version that the object has", args: "label sandbox web seen=yes -o diff --resource-version " + s.Object("sandboxes", "default", "web").GetResourceVersion()},
		{name: "a format that suspend does not have", args: "suspend app -o yaml"},
		{name: "a format that get does not have", args: "get sandboxes -o diff"},
		{name: "a format that create does not have", args: "create sandbox other -o diff"},
	})
}

func TestAnEditOfAStaleObjectIsShownAsAThreeWayDifference(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	t.Setenv("TMPDIR", t.TempDir())
	renamed(s, "sandboxes", "web", "Shop")
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			renamed(s, "sandboxes", "web", "Theirs")
		}
		return false
	})
	editor(t, "s/Shop/Ours/")
	code, out, errs := w.run(t, "edit", "sandbox", "web", "-o", "diff")
	if code != exitFailure || !strings.Contains(errs, "Edit it again, or repeat with --force-conflicts. Your changes are in ") {
		t.Errorf("%d %s", code, errs)
	}
	for _, want := range []string{"-  displayName: Shop\n+  displayName: Theirs\n", "-  displayName: Shop\n+  displayName: Ours\n", "# Changed by both, to different values: spec.displayName\n", "by kubectl-edit at "} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}
