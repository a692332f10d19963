// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestCreateMakesAnObjectOfFlagsAndFiles(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	clitest.WithSchema(t, s)
	const manifest = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata:\n  name: filed\n  labels: {env: test, tier: web}\nspec:\n  replicas: 2\n"
	w.Transcript(t, "create.golden", []clitest.Turn{
		{Name: "by its kind and name", Args: "create sandboxset more"},
		{Name: "with labels, annotations and fields", Args: "create sbx/shop --label env=prod --label tier= --annotation note='asked for by Kim' --set displayName='The shop' --set tags='[a, b]' --set suspended=true --set metadata.labels.team=x"},
		{Name: "as it is now", Args: "get sandbox shop -o yaml"},
		{Name: "a dry run", Args: "create sandbox tried --label env=prod --dry-run"},
		{Name: "a dry run as kubectl has it, printed", Args: "create sandbox tried --set replicas=3 --dry-run=server -o jsonpath={.spec}"},
		{Name: "which made nothing", Args: "get sandbox tried"},
		{Name: "of a file", Args: "create -f -", Input: manifest},
		{Name: "of a file, under the kind and name of the call", Args: "create sandbox filed-too --label env=prod -f - -o name", Input: strings.Replace(manifest, "  name: filed\n", "", 1)},
		{Name: "whose labels are both", Args: "get sandbox filed-too -o jsonpath={.metadata.labels}"},
		{Name: "in another namespace", Args: "create sandbox elsewhere -n other"},
		{Name: "one that is there", Args: "create sandbox web"},
	})
}

func TestCreateRefusesMistakesBeforeItCreates(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	clitest.WithSchema(t, s)
	const manifest = "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\nmetadata: {name: filed, namespace: default}\n"
	w.Transcript(t, "create-usage.golden", []clitest.Turn{
		{Name: "nothing", Args: "create"},
		{Name: "without a name", Args: "create sandbox"},
		{Name: "two names", Args: "create sandbox a b"},
		{Name: "a name that cannot be", Args: "create sandbox My_App"},
		{Name: "a label with a space in its key", Args: "create sandbox x --label 'a b=c'"},
		{Name: "a label whose value is too long", Args: "create sandbox x --label env=" + strings.Repeat("x", 64)},
		{Name: "a label twice", Args: "create sandbox x --label env=a --label env=b"},
		{Name: "a label without a value", Args: "create sandbox x --label env"},
		{Name: "an annotation without a value", Args: "create sandbox x --annotation note"},
		{Name: "a field that there is not", Args: "create sandbox x --set dispalyName=x"},
		{Name: "a value of another type", Args: "create sandbox x --set replicas=many"},
		{Name: "a value that is not one of those", Args: "create sandbox x --set visibility=everyone"},
		{Name: "a file that is not there", Args: "create -f /nowhere/sandbox.yaml"},
		{Name: "a file with another text than YAML", Args: "create -f -", Input: "a: b: c"},
		{Name: "a file without objects", Args: "create -f -", Input: "---\n---\n"},
		{Name: "an object without a kind", Args: "create -f -", Input: "metadata: {name: x}"},
		{Name: "two objects", Args: "create -f -", Input: manifest + "---\n" + manifest},
		{Name: "an object without a name", Args: "create -f -", Input: "apiVersion: sandbar.dev/v1alpha1\nkind: Sandbox\n"},
		{Name: "an object of another kind than that of the call", Args: "create sandboxset filed -f -", Input: manifest},
		{Name: "an object of another name than that of the call", Args: "create sandbox other -f -", Input: manifest},
		{Name: "an object of another namespace than that of the call", Args: "create sandbox filed -n other -f -", Input: manifest},
		{Name: "a file that is too large", Args: "create -f -", Input: strings.Repeat("#", MaxManifest+1)},
		{Name: "a condition that cannot be", Args: "create sandbox x --wait=Ready=Yes"},
		{Name: "no time to wait", Args: "create sandbox x --wait --timeout 0s"},
		{Name: "a wait for nothing", Args: "create sandbox x --wait --dry-run"},
		{Name: "a dry run of another place", Args: "create sandbox x --dry-run=client"},
		{Name: "a table of one object", Args: "create sandbox x -o wide"},
		{Name: "a kind that is not there", Args: "create pod x"},
	})
	for _, r := range s.Requests() {
		if !strings.HasPrefix(r, "GET ") {
			t.Errorf("it has sent %s", r)
		}
	}
}

func TestCreateWaitsWithProgressOnStderr(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	clitest.Becoming(s, "a", clitest.StateWith("Materializing", "False", "the image is pulled"), clitest.StateWith("Materializing", "False", "the image is pulled"), clitest.StateWith("Ready", "True", "all parts are ready"))
	w.Transcript(t, "create-wait.golden", []clitest.Turn{{Name: "until it is Ready", Args: "create sandbox a --wait"}})
	clitest.Becoming(s, "b", clitest.StateWith("Ready", "True", ""))
	if code, stdout, stderr := w.Run(t, "create", "sandbox", "b", "--wait", "-o", "jsonpath={.status.phase}"); code != 0 || stdout != "Ready" {
		t.Errorf("a program gets one document, of the last state: %d %q %s", code, stdout, stderr)
	}
	clitest.Becoming(s, "c", clitest.StateWith("Failed", "False", "the image shop:1 does not exist"))
	if code, _, stderr := w.Run(t, "create", "sandbox", "c", "--wait"); code != cli.ExitFailure || !strings.HasSuffix(stderr, "sandbar: c does not become Ready by itself: it is Failed: the image shop:1 does not exist\n") {
		t.Errorf("%d %s", code, stderr)
	}
	clitest.Becoming(s, "d", clitest.StateWith("PendingCapacity", "False", "the cluster has no room"))
	if code, _, stderr := w.Run(t, "create", "sandbox", "d", "--wait", "--timeout", "1s"); code != cli.ExitFailure || !strings.HasSuffix(stderr, "sandbar: d is still PendingCapacity: the cluster has no room after 1s; --timeout gives it longer\n") {
		t.Errorf("%d %s", code, stderr)
	}
	if s.Object("sandboxes", "default", "d") == nil {
		t.Error("what does not become Ready in time stays")
	}
}

func TestCreateEndsWhenTheObjectIsDeletedMeanwhile(t *testing.T) {
	w := newWorld(t)
	s := w.WithObjects(t)
	s.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			s.Remove("sandboxes", "default", "a")
		}
		return false
	})
	if code, _, stderr := w.Run(t, "create", "sandbox", "a", "--wait"); code != cli.ExitFailure || !strings.Contains(stderr, "sandbar: the Sandbox a was deleted meanwhile\n") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestAFileHasAtMostAThousandObjects(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	const one = "---\nkind: Sandbox\napiVersion: sandbar.dev/v1alpha1\nmetadata: {name: a}\n"
	code, _, stderr := w.RunWith(t, strings.NewReader(strings.Repeat(one, MaxManifestObjects+1)), "apply", "-f", "-")
	if code != cli.ExitUsage || stderr != "sandbar: -f -: it has more than 1000 objects\n" || len(s.Requests()) > 0 {
		t.Errorf("%d %s", code, stderr)
	}
	if all, err := parseObjects([]byte(strings.Repeat(one, MaxManifestObjects))); err != nil || len(all) != MaxManifestObjects {
		t.Errorf("%d %v", len(all), err)
	}
}
