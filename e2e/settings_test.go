// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchProvider changes the spec of the InfrastructureProvider.
func (f *fleet) patchProvider(spec string) {
	f.t.Helper()
	data := []byte(`{"spec":` + spec + `}`)
	if _, err := f.dyn.Resource(providers).Patch(f.t.Context(), "default", types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		f.t.Fatalf("changing the InfrastructureProvider: %v", err)
	}
}

// waitProvider waits until a condition of the InfrastructureProvider has a status, for its present
// generation, and mentions each of the words.
func waitProvider(t *testing.T, n *note, kind string, status metav1.ConditionStatus, words ...string) string {
	t.Helper()
	var said string
	eventually(t, fmt.Sprintf("the provider's %s is %s with %q", kind, status, words), func() error {
		got, err := n.dyn.Resource(providers).Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := condition(got, kind)
		if c == nil || c["status"] != string(status) || c["observedGeneration"] != got.GetGeneration() {
			return fmt.Errorf("it says %v", c)
		}
		said = fmt.Sprint(c["reason"], ": ", c["message"])
		for _, word := range words {
			if !strings.Contains(said, word) {
				return fmt.Errorf("it says %q", said)
			}
		}
		return nil
	})
	t.Log(said)
	return said
}

// TestAMistakeInTheSettingsReachesNobody: an image that was taken away degraded all sandboxes with a
// message that no tenant can act on (issue 12, A.4). A change that would break instances counts for
// nothing, and says why.
func TestAMistakeInTheSettingsReachesNobody(t *testing.T) {
	breaks(t) // no setting of another test would count meanwhile
	f := newFleet(t, 2)
	f.mistaken(t, map[string]mistake{
		"an image that a graph needs is taken away": {
			`{"images":{"` + f.key + `":null}}`, `{"images":{"` + f.key + `":"localhost/sandbar/toolchain-node:dev"}}`, "Template " + f.name,
		},
		"a runtime class that there is not": {
			`{"isolation":{"runtimeClassName":"missing"}}`, `{"isolation":{"runtimeClassName":null}}`, `no RuntimeClass "missing"`,
		},
		"a quota that is none": {
			`{"quota":{"hard":{"not a resource":"1"}}}`, `{"quota":{"hard":null}}`, "spec.quota",
		},
	})
}

// TestMoreMistakesInTheSettingsReachNobody is the same for further ones.
func TestMoreMistakesInTheSettingsReachNobody(t *testing.T) {
	long(t, "TestAMistakeInTheSettingsReachesNobody has most of its promise")
	breaks(t)
	f := newFleet(t, 2)
	f.mistaken(t, map[string]mistake{
		"an image that a graph needs is empty": {
			`{"images":{"` + f.key + `":""}}`, `{"images":{"` + f.key + `":"localhost/sandbar/toolchain-node:dev"}}`, "Template " + f.name,
		},
		"an image is no reference": {
			`{"images":{"` + f.key + `":"Not A Reference"}}`, `{"images":{"` + f.key + `":"localhost/sandbar/toolchain-node:dev"}}`, "spec.images." + f.key,
		},
		"an address that is none": {
			`{"isolation":{"egress":{"deniedCIDRs":["999.1.1.1/8"]}}}`, `{"isolation":{"egress":{"deniedCIDRs":null}}}`, "deniedCIDRs",
		},
	})
}

// mistake is a wrong setting, what takes it back, and what is said of it.
type mistake struct{ wrong, right, says string }

// mistaken makes mistakes one after the other, of which the fleet must notice nothing.
func (f *fleet) mistaken(t *testing.T, mistakes map[string]mistake) {
	before, was := f.pods(), f.rollout()
	for name, tc := range mistakes {
		t.Run(name, func(t *testing.T) {
			f.patchProvider(tc.wrong)
			waitProvider(t, f.note, "PlatformPublished", metav1.ConditionFalse, tc.says, "Nothing of this change was published")
			for _, box := range f.boxes {
				box.waitReady()
			}
			// New ones work as well: they get what was accepted last.
			f.newBox("fresh-" + randomHex(3)).waitReady()
			f.patchProvider(tc.right)
			waitProvider(t, f.note, "PlatformPublished", metav1.ConditionTrue)
		})
	}
	if got := f.replaced(before); len(got) > 0 {
		t.Errorf("the pods of %v were replaced", got)
	}
	if is := f.rollout(); is["revision"] != was["revision"] {
		t.Errorf("the revision is %v, was %v", is["revision"], was["revision"])
	}
	for _, box := range f.boxes {
		for _, phase := range recorded.phases(box.id.UID) {
			if phase == "Degraded" || phase == "Failed" || phase == "Pending" {
				t.Errorf("%s was %s", box.name, phase)
			}
		}
	}
}

func TestAGraphReadsOnlyWhatThePlatformHas(t *testing.T) {
	changes(t)
	for name, tc := range map[string]struct{ reads, says string }{
		"an image that the provider does not have": {"platform.data.nosuchImage", "ImageMissing: spec.graph reads platform.data.nosuchImage"},
		"a value that there is not":                {"platform.data.nosuch", "InvalidTemplate: spec.graph reads platform.data.nosuch"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNote(t)
			n.text = strings.ReplaceAll(fleetTemplate, "platform.data.KEYImage", tc.reads)
			n.apply()
			n.wait("GraphAccepted", metav1.ConditionFalse, tc.says)
		})
	}
}

// TestASchemaCanGoBack: a compatible change could not be undone, because taking it back was refused
// for ever.
func TestASchemaCanGoBack(t *testing.T) {
	changes(t)
	n := newNote(t)
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	other := newTenant(t, "bob")
	keep := tn.createNote(n, "keep")
	const more = "size: integer | default=1\n        more: string | default=\"b\""
	n.apply("size: integer | default=1", more)
	eventually(t, "the field is served", func() error {
		obj, err := keep.get()
		if err != nil {
			return err
		}
		if got := obj.Object["spec"].(map[string]any)["more"]; got != "b" {
			return fmt.Errorf("more is %v", got)
		}
		return nil
	})
	other.waitServed(n.gvr)
	user := other.create(n.gvr, n.kind, "user", map[string]any{"text": "x", "more": "mine"})
	// Each binding gets the schema in its own time, and kcp prunes what it does not know.
	eventually(t, "the field is served to another tenant", func() error {
		user.mustPatch(`{"spec":{"more":"mine"}}`)
		obj, err := user.get()
		if err == nil && obj.Object["spec"].(map[string]any)["more"] != "mine" {
			err = fmt.Errorf("it has %v", obj.Object["spec"])
		}
		return err
	})
	user.waitReady()
	n.apply() // takes the field back
	n.wait("GraphAccepted", metav1.ConditionFalse, "IncompatibleSchema", "spec.more was removed", "1 instances in 1 workspaces", other.path, "spec.more is set in 1")
	if obj, err := user.get(); err != nil || obj.Object["spec"].(map[string]any)["more"] != "mine" {
		t.Errorf("after the refusal the object says %v, %v", obj.Object["spec"], err)
	}
	user.mustPatch(`{"spec":{"more":"b"}}`)
	n.touch()
	n.wait("Ready", metav1.ConditionTrue, "Ready: ")
	eventually(t, "the field is gone", func() error {
		obj, err := user.get()
		if err != nil {
			return err
		}
		if got, found := obj.Object["spec"].(map[string]any)["more"]; found {
			return fmt.Errorf("more is %v", got)
		}
		return nil
	})
	for _, i := range []*instance{keep, user} {
		i.mustPatch(`{"spec":{"text":"changed"}}`) // tenants may write again
		i.waitReady()
	}
}

// touch has a Template looked at again, as its condition says.
func (n *note) touch() {
	n.t.Helper()
	data := fmt.Appendf(nil, `{"metadata":{"annotations":{"test/touched-%s":"x"}}}`, randomHex(2))
	if _, err := n.dyn.Resource(templates).Patch(n.t.Context(), n.name, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		n.t.Fatal(err)
	}
}
