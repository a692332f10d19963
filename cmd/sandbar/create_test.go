// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestCreateMakesAnObjectOfFlagsAndFiles(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	withSchema(t, s)
	const manifest = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata:\n  name: filed\n  labels: {env: test, tier: web}\nspec:\n  replicas: 2\n"
	w.transcript(t, "create.golden", []turn{
		{name: "by its kind and name", args: "create sandboxset more"},
		{name: "with labels, annotations and fields", args: "create sbx/shop --label env=prod --label tier= --annotation note='asked for by Kim' --set displayName='The shop' --set tags='[a, b]' --set suspended=true --set metadata.labels.team=x"},
		{name: "as it is now", args: "get sandbox shop -o yaml"},
		{name: "a dry run", args: "create sandbox tried --label env=prod --dry-run"},
		{name: "a dry run as kubectl has it, printed", args: "create sandbox tried --set replicas=3 --dry-run=server -o jsonpath={.spec}"},
		{name: "which made nothing", args: "get sandbox tried"},
		{name: "of a file", args: "create -f -", input: manifest},
		{name: "of a file, under the kind and name of the call", args: "create sandbox filed-too --label env=prod -f - -o name", input: strings.Replace(manifest, "  name: filed\n", "", 1)},
		{name: "whose labels are both", args: "get sandbox filed-too -o jsonpath={.metadata.labels}"},
		{name: "in another namespace", args: "create sandbox elsewhere -n other"},
		{name: "one that is there", args: "create sandbox web"},
	})
}

func TestCreateRefusesMistakesBeforeItCreates(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	withSchema(t, s)
	const manifest = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: filed, namespace: default}\n"
	w.transcript(t, "create-usage.golden", []turn{
		{name: "nothing", args: "create"},
		{name: "without a name", args: "create sandbox"},
		{name: "two names", args: "create sandbox a b"},
		{name: "a name that cannot be", args: "create sandbox My_App"},
		{name: "a label with a space in its key", args: "create sandbox x --label 'a b=c'"},
		{name: "a label whose value is too long", args: "create sandbox x --label env=" + strings.Repeat("x", 64)},
		{name: "a label twice", args: "create sandbox x --label env=a --label env=b"},
		{name: "a label without a value", args: "create sandbox x --label env"},
		{name: "an annotation without a value", args: "create sandbox x --annotation note"},
		{name: "a field that there is not", args: "create sandbox x --set dispalyName=x"},
		{name: "a value of another type", args: "create sandbox x --set replicas=many"},
		{name: "a value that is not one of those", args: "create sandbox x --set visibility=everyone"},
		{name: "a file that is not there", args: "create -f /nowhere/sandbox.yaml"},
		{name: "a file with another text than YAML", args: "create -f -", input: "a: b: c"},
		{name: "a file without objects", args: "create -f -", input: "---\n---\n"},
		{name: "an object without a kind", args: "create -f -", input: "metadata: {name: x}"},
		{name: "two objects", args: "create -f -", input: manifest + "---\n" + manifest},
		{name: "an object without a name", args: "create -f -", input: "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\n"},
		{name: "an object of another kind than that of the call", args: "create sandboxset filed -f -", input: manifest},
		{name: "an object of another name than that of the call", args: "create sandbox other -f -", input: manifest},
		{name: "an object of another namespace than that of the call", args: "create sandbox filed -n other -f -", input: manifest},
		{name: "a file that is too large", args: "create -f -", input: strings.Repeat("#", maxManifest+1)},
		{name: "a condition that cannot be", args: "create sandbox x --wait=Ready=Yes"},
		{name: "no time to wait", args: "create sandbox x --wait --timeout 0s"},
		{name: "a wait for nothing", args: "create sandbox x --wait --dry-run"},
		{name: "a dry run of another place", args: "create sandbox x --dry-run=client"},
		{name: "a table of one object", args: "create sandbox x -o wide"},
		{name: "a kind that is not there", args: "create pod x"},
	})
	for _, r := range s.Requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("it has sent %s", r)
		}
	}
}

func TestCreateWaitsWithProgressOnStderr(t *testing.T) {
	w := newWorld(t)
	s := w.withObjects(t)
	becoming(s, "a", stateWith("Materializing", "False", "the image is pulled"), stateWith("Materializing", "False", "the image is pulled"), stateWith("Ready", "True", "all parts are ready"))
	w.transcript(t, "create-wait.golden", []turn{{name: "until it is Ready", args: "create sandbox a --wait"}})
	becoming(s, "b", stateWith("Ready", "True", ""))
	if code, stdout, stderr := w.run(t, "create", "sandbox", "b", "--wait", "-o", "jsonpath={.status.phase}"); code != 0 || stdout != "Ready" {
		t.Errorf("a program gets one document, of the last state: %d %q %s", code, stdout, stderr)
	}
	becoming(s, "c", stateWith("Failed", "False", "the image shop:1 does not exist"))
	if code, _, stderr := w.run(t, "create", "sandbox", "c", "--wait"); code != exitFailure || !strings.HasSuffix(stderr, "sandbar: c does not become Ready by itself: it is Failed: the image shop:1 does not exist\n") {
		t.Errorf("%d %s", code, stderr)
	}
	becoming(s, "d", stateWith("PendingCapacity", "False", "the cluster has no room"))
	if code, _, stderr := w.run(t, "create", "sandbox", "d", "--wait", "--timeout", "1s"); code != exitFailure || !strings.HasSuffix(stderr, "sandbar: d is still PendingCapacity: the cluster has no room after 1s; --timeout gives it longer\n") {
		t.Errorf("%d %s", code, stderr)
	}
	if s.Object("sandboxes", "default", "d") == nil {
		t.Error("what does not become Ready in time stays")
	}
}

func TestCreateEndsWhenTheObjectIsDeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	s := w.withObjects(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxes", "default", "a")
		}
		return false
	})
	if code, _, stderr := w.run(t, "create", "sandbox", "a", "--wait"); code != exitFailure || !strings.Contains(stderr, "sandbar: the Sandbox a was deleted meanwhile\n") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestAFileHasAtMostAThousandObjects(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	const one = "---\nkind: Sandbox\napiVersion: sandbar.dev/v1alpha1\nmetadata: {name: a}\n"
	code, _, stderr := w.runWith(t, strings.NewReader(strings.Repeat(one, maxManifestObjects+1)), "apply", "-f", "-")
	if code != exitUsage || stderr != "sandbar: -f -: it has more than 1000 objects\n" || len(s.Requests()) > 0 {
		t.Errorf("%d %s", code, stderr)
	}
	if all, err := parseObjects([]byte(strings.Repeat(one, maxManifestObjects))); err != nil || len(all) != maxManifestObjects {
		t.Errorf("%d %v", len(all), err)
	}
}
