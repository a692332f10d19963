// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestObjectsFromATerminal is the promise of the command line's objects: a person with a kubeconfig creates a sandbox
// with labels, finds it by them, sees what it is, changes it under the version that was read, and deletes it with all
// that it had, and needs no other program for that.
func TestObjectsFromATerminal(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	get := func(args ...string) string { return s.must(append([]string{"get"}, args...)...) }

	if got := s.must("whoami"); !strings.Contains(got, "alice") || !strings.Contains(got, tn.path) {
		t.Errorf("whoami: %s", got)
	}
	code, out, errs := s.run("create", "sandboxrunner", "shop", "--set", "projectRef=e2e", "--set", "startCommand=exec sleep 3600",
		"--set", "port=8080", "--label", "env=prod", "--label", "tier=web", "--wait")
	if code != 0 || out != "sandboxrunner.sandbar.dev/shop created\n" || !strings.HasSuffix(errs, "shop is Ready\n") {
		t.Fatalf("create: exit code %d, %q, %q", code, out, errs)
	}
	created.Add(1)
	s.must("create", "sbr", "other", "--set", "projectRef=e2e", "--set", "suspended=true", "--label", "env=test")
	created.Add(1)
	s.refused(`there is a SandboxRunner shop in namespace default already`, "create", "sandboxrunner", "shop", "--set", "projectRef=e2e")

	const shop, both = "sandboxrunner.sandbar.dev/shop\n", "sandboxrunner.sandbar.dev/shop\nsandboxrunner.sandbar.dev/other\n"
	for selector, want := range map[string]string{
		"env=prod": shop, "env=prod,tier=web": shop, "env in (prod, test)": both, "!tier": strings.TrimPrefix(both, shop), "env=stage": "",
	} {
		if got := get("sbr", "-o", "name", "-l", selector); got != want {
			t.Errorf("-l %q: %q, want %q", selector, got, want)
		}
	}
	if got := strings.Fields(get("sandboxrunners", "-A", "--chunk-size", "1")); len(got) < 14 || strings.Join(got[:7], " ") != "NAMESPACE NAME TEMPLATE STATE AGE IDLE EXPIRES" || strings.Join(got[7:11], " ") != "default shop node Ready" {
		t.Errorf("the table is %q", got)
	}
	described := s.must("describe", "sbr", "shop")
	for _, want := range []string{"env=prod", "tier=web", " by sandbar-cli Creator: alice Updated", "(observed)", "State: Ready", " Ready True ", "Start: Cold Created ", " Scheduled "} {
		if !strings.Contains(strings.Join(strings.Fields(described), " "), want) {
			t.Errorf("describe has no %q:\n%s", want, described)
		}
	}

	if got := strings.Join(strings.Fields(get("sbr", "shop", "-o", "jsonpath={.status.start.steps[*].name}")), " "); !strings.HasPrefix(got, "Scheduled ") || !strings.HasSuffix(got, "Started PodReady") {
		t.Errorf("the steps of its start are %q", got)
	}

	events, notes, stop := s.begin("get", "sbr", "-l", "env=prod", "-w")
	await(t, events, "shop")
	version := get("sbr", "shop", "-o", "jsonpath={.metadata.resourceVersion}")
	s.refused(`the label env of shop is "prod", and would become "live"`, "label", "sbr", "shop", "env=live")
	s.must("label", "sbr", "shop", "env=live", "--overwrite")
	await(t, events, "Deleted") // from the selection
	if code := stop(); code != 130 {
		t.Errorf("get -w ended with %d: %s", code, notes)
	}
	s.refused("shop has changed since version "+version+": metadata.labels.env (by sandbar-cli, ", "delete", "sbr", "shop", "--resource-version", version)
	staleIsShown(s, version)
	s.explainsFields()

	s.write("shop.yaml", "apiVersion: sandbar.dev/v1alpha1\nkind: SandboxRunner\nmetadata: {name: shop, annotations: {note: applied}}\n")
	if got := s.must("apply", "-f", s.dir+"/shop.yaml"); got != "sandboxrunner.sandbar.dev/shop configured\n" {
		t.Errorf("apply: %q", got)
	}
	if got := s.must("apply", "-f", s.dir+"/shop.yaml"); got != "sandboxrunner.sandbar.dev/shop unchanged\n" {
		t.Errorf("apply again: %q", got)
	}
	s.refused(`this workspace has no kind "pods"; it has `, "get", "pods")

	s.updatesWhole()

	uid := get("sbr", "shop", "-o", "jsonpath={.metadata.uid}")
	if got := s.must("delete", "sbr", "shop", "other"); got != fmt.Sprintf("%s deleted\n%s deleted\n", strings.TrimSpace(shop), "sandboxrunner.sandbar.dev/other") {
		t.Errorf("delete: %q", got)
	}
	waitGone(t, placement.ID{Origin: tn.cluster, UID: types.UID(uid)})
	if code, out, errs := s.run("get", "sbr"); code != 0 || out != "" || errs != "No sandboxrunners in namespace default.\n" {
		t.Errorf("exit code %d, %q, %q", code, out, errs)
	}
}

// staleIsShown has a change under a version that the object shop does not have any more shown as a three-way difference.
// The server keeps former versions for minutes.
func staleIsShown(s *terminal, version string) {
	s.t.Helper()
	code, out, errs := s.run("label", "sbr", "shop", "env=stage", "--overwrite", "--resource-version", version, "-o", "diff")
	if code != 1 || !strings.Contains(errs, "Read it again, and repeat the command with version ") {
		s.t.Errorf("exit code %d: %s", code, errs)
	}
	for _, want := range []string{
		"# shop has changed since version " + version + ":\n", "#   metadata.labels.env by sandbar-cli at ", "-    env: prod\n+    env: live\n",
		"# Your change of version " + version + ":\n", "+++ yours\n", "-    env: prod\n+    env: stage\n", "# Changed by both, to different values: metadata.labels.env\n",
	} {
		if !strings.Contains(out, want) {
			s.t.Errorf("the difference has no %q:\n%s", want, out)
		}
	}
}

// explainsFields reads the schema that kcp serves of a kind which a Template defines.
func (s *terminal) explainsFields() {
	s.t.Helper()
	if got := s.must("explain", "sbr"); !strings.Contains(got, "KIND:       SandboxRunner\n") || !strings.Contains(got, "  spec\t<Object>") {
		s.t.Errorf("explain prints %s", got)
	}
	if got := s.must("explain", "sandboxrunners.sandbar.dev.spec.lifecycle"); !strings.Contains(got, "sleepAfterUnused\t<string>") {
		s.t.Errorf("explain prints %s", got)
	}
	s.refused("SandboxRunner has no field spec.lifecycel; spec has ", "explain", "sbr.spec.lifecycel")
}

// updatesWhole replaces the object shop by a file, which has the version that it was read in.
func (s *terminal) updatesWhole() {
	s.t.Helper()
	read := func(output string) string { return s.must("get", "sbr", "shop", "-o", output) }
	s.write("whole.yaml", strings.Replace(read("yaml"), "note: applied", "note: updated", 1))
	if got := s.must("update", "-f", s.dir+"/whole.yaml", "-o", "diff"); got != "sandboxrunner.sandbar.dev/shop updated\n" {
		s.t.Errorf("update: %q", got)
	}
	s.refused("shop has changed since version ", "update", "-f", s.dir+"/whole.yaml")
	if got := read("jsonpath={.metadata.annotations.note}{.metadata.labels.env}"); got != "updatedlive" {
		s.t.Errorf("after the update: %q", got)
	}
}

// refused runs a command that has to fail with a text.
func (s *terminal) refused(want string, args ...string) {
	s.t.Helper()
	if code, _, errs := s.run(args...); code != 1 || !strings.Contains(errs, want) {
		s.t.Errorf("sandbar %s: exit code %d, %q, want 1 and %q", strings.Join(args, " "), code, errs, want)
	}
}
