// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

var (
	key    = export.Key{Cluster: "c", NamespacedName: types.NamespacedName{Namespace: "storefront", Name: "preview"}}
	groups = schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxgroups"}
)

// parts has one group at most, and answers as kcp does.
type parts struct {
	group           *unstructured.Unstructured
	readErr, refuse error
	writes          []string
}

func (p *parts) Live(context.Context, export.Key) (*unstructured.Unstructured, error) {
	switch {
	case p.readErr != nil:
		return nil, p.readErr
	case p.group == nil:
		return nil, apierrors.NewNotFound(groups, key.Name)
	}
	return p.group.DeepCopy(), nil
}

func (p *parts) Known(export.Key) bool { return p.group != nil }

func (p *parts) Create(_ context.Context, _ export.Key, obj *unstructured.Unstructured) error {
	p.writes = append(p.writes, "create")
	if p.refuse == nil {
		p.group = obj.DeepCopy()
	}
	return p.refuse
}

func (p *parts) Patch(_ context.Context, _ export.Key, data []byte, _ ...string) (*unstructured.Unstructured, error) {
	p.writes = append(p.writes, "patch")
	if p.refuse != nil {
		return nil, p.refuse
	}
	before, err := json.Marshal(p.group)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, data)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	if err := json.Unmarshal(after, changed); err != nil {
		return nil, err
	}
	changed.SetGeneration(changed.GetGeneration() + 1)
	p.group = changed
	return changed.DeepCopy(), nil
}

func (p *parts) Remove(_ context.Context, _ export.Key, read *unstructured.Unstructured) error {
	p.writes = append(p.writes, "remove")
	if p.refuse == nil {
		p.group = read.DeepCopy()
		p.group.SetDeletionTimestamp(&metav1.Time{Time: now})
	}
	return p.refuse
}

func TestAGroupIsMadeAsItsSandboxSays(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "SandboxGroup"}, key.Name, nil)
	for name, row := range map[string]struct {
		group   func(*unstructured.Unstructured) // nil: there is none
		sandbox func(*unstructured.Unstructured)
		waits   time.Duration
		readErr error
		refuse  error

		writes          []string
		reason, says    string
		owned, mustFail bool
	}{
		"there is none":                          {writes: []string{"create"}, reason: "ApplySucceeded"},
		"there is none, and the spec is refused": {sandbox: set("1h", "spec", "lifecycle", "sleepAfterUnused"), reason: "ActivityNotVisible"},
		"it is as it has to be":                  {group: unset("spec", "none"), reason: "ApplySucceeded", owned: true},
		"it differs":                             {group: set(true, "spec", "suspended"), writes: []string{"patch"}, reason: "ApplySucceeded", owned: true},
		"it differs again": {
			group: set(true, "spec", "suspended"), waits: 7 * time.Second, reason: "ApplyFailed", owned: true, says: "SandboxGroup preview is changed again and again by somebody else; change the Sandbox",
		},
		"the spec is refused, and it stays": {group: unset("spec", "none"), sandbox: set("1h", "spec", "lifecycle", "sleepAfterUnused"), reason: "ActivityNotVisible", owned: true},
		"it is somebody else's": {
			group: unset("metadata", "annotations"), sandbox: set("another", "metadata", "uid"), reason: "NameTaken",
			says: "there is another SandboxGroup preview, which this Sandbox has not made and leaves alone; delete it, or create this Sandbox under another name",
		},
		"it is being deleted": {
			group: set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp"), reason: "ApplyFailed", owned: true, says: "another one is made when it is gone",
		},
		"kcp does not say":                     {readErr: errors.New("connection refused"), mustFail: true},
		"the kind is not served":               {readErr: apierrors.NewForbidden(groups, key.Name, errors.New("no")), mustFail: true},
		"kcp refuses the new one":              {refuse: invalid, writes: []string{"create"}, reason: "ApplyFailed", says: "the workspace does not take the SandboxGroup: ", mustFail: true},
		"kcp refuses the change":               {group: set(true, "spec", "suspended"), refuse: invalid, writes: []string{"patch"}, reason: "ApplyFailed", owned: true, mustFail: true},
		"somebody has changed it in between":   {group: set(true, "spec", "suspended"), refuse: apierrors.NewConflict(groups, key.Name, nil), writes: []string{"patch"}, owned: true, mustFail: true},
		"somebody has made one in between":     {refuse: apierrors.NewAlreadyExists(groups, key.Name), writes: []string{"create"}, mustFail: true},
		"somebody writes, and the answer lost": {group: set(true, "spec", "suspended"), refuse: errors.New("timeout"), writes: []string{"patch"}, owned: true, mustFail: true},
	} {
		t.Run(name, func(t *testing.T) {
			obj := sandbox(t)
			p := &parts{readErr: row.readErr, refuse: row.refuse}
			if row.group != nil {
				p.group = groupOf(t, obj, "phase: Ready")
				row.group(p.group)
			}
			if row.sandbox != nil {
				row.sandbox(obj)
			}
			got, err := Apply(t.Context(), p, key, obj, PlanCopies(obj, words(), false), row.waits)
			if (err != nil) != row.mustFail || got.Reason != row.reason || got.OK != (row.reason == "ApplySucceeded") || !strings.Contains(got.Message, row.says) {
				t.Errorf("%+v, error %v", got.Verdict, err)
			}
			if !slices.Equal(p.writes, row.writes) {
				t.Errorf("it writes %v, want %v", p.writes, row.writes)
			}
			if (got.Part != nil) != row.owned || got.Waits != row.waits || got.Corrected != (slices.Contains(row.writes, "patch") && !row.mustFail) {
				t.Errorf("%+v", got)
			}
			if !row.mustFail && row.waits == 0 && got.Reason == "ApplySucceeded" {
				p.writes = nil
				if again, err := Apply(t.Context(), p, key, obj, PlanCopies(obj, words(), false), 0); err != nil || !again.OK || len(p.writes) > 0 {
					t.Errorf("the second time it writes %v: %+v, %v", p.writes, again.Verdict, err)
				}
			}
		})
	}
}

// A merge patch loses a null inside a list, and the group was written again at each look.
func TestNullInAPatchOfAPodTemplateIsWrittenOnce(t *testing.T) {
	obj := sandbox(t)
	workloads := obj.Object["spec"].(map[string]any)["workloads"].([]any)
	inherit := workloads[0].(map[string]any)["inherit"].(map[string]any)
	inherit["podTemplatePatch"] = objectOf(t, `patch: [{op: add, path: /spec/containers/0/env, from: null, value: [{name: A, valueFrom: null}, null, {name: B, value: b}]}]`).Object["patch"]
	withNull := PlanCopies(obj, words(), false)
	patchOf := func(part *unstructured.Unstructured) any {
		return part.Object["spec"].(map[string]any)["components"].([]any)[0].(map[string]any)["podTemplatePatch"]
	}
	wanted := objectOf(t, `patch: [{op: add, path: /spec/containers/0/env, value: [{name: A}, null, {name: B, value: b}]}]`).Object["patch"]
	if diff := cmp.Diff(wanted, patchOf(withNull.Part)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, group := range map[string]*unstructured.Unstructured{
		"of before":               groupOf(t, sandbox(t), "phase: Ready"),
		"that was made with null": groupOf(t, obj, "phase: Ready"),
	} {
		if name == "that was made with null" {
			group.Object["spec"].(map[string]any)["components"].([]any)[0].(map[string]any)["podTemplatePatch"] = inherit["podTemplatePatch"]
		}
		p := &parts{group: group}
		for range 3 {
			if got, err := Apply(t.Context(), p, key, obj, withNull, 0); err != nil || !got.OK {
				t.Fatalf("a group %s: %+v, %v", name, got, err)
			}
		}
		if want := map[bool]int{true: 1}[name == "of before"]; len(p.writes) != want {
			t.Errorf("a group %s is written %d times, want %d", name, len(p.writes), want)
		}
	}
}

func TestAGroupGoesWithItsSandboxAndNoOther(t *testing.T) {
	for name, row := range map[string]struct {
		group  func(*unstructured.Unstructured)
		uid    string
		writes []string
		left   bool
	}{
		"there is none":         {},
		"it is there":           {group: unset("spec", "none"), writes: []string{"remove"}, left: true},
		"it is on its way":      {group: set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp"), left: true},
		"it is somebody else's": {group: unset("spec", "none"), uid: "another"},
	} {
		obj := sandbox(t)
		p := &parts{}
		if row.group != nil {
			p.group = groupOf(t, obj, "phase: Ready")
			row.group(p.group)
		}
		if row.uid != "" {
			obj.SetUID(types.UID(row.uid))
		}
		left, err := Remove(t.Context(), p, key, obj)
		if err != nil || (left != nil) != row.left || !slices.Equal(p.writes, row.writes) {
			t.Errorf("%s: left %v, writes %v, error %v", name, left != nil, p.writes, err)
		}
	}
	if _, err := Remove(t.Context(), &parts{readErr: errors.New("connection refused")}, key, sandbox(t)); err == nil {
		t.Error("what kcp does not say is taken for gone")
	}
}

// The provider of a SandboxRoute does not change.
func TestARouteIsReplacedWhereItCannotBeChanged(t *testing.T) {
	obj := routed(t)
	p := &parts{group: routeOfSandbox(t, obj, "")}
	set("proxy", "spec", "routing", "provider")(obj)
	unset("spec", "routing", "gateway")(obj)
	plan := PlanRoute(obj, words())
	got, err := Apply(t.Context(), p, key, obj, plan, 3*time.Second)
	if err != nil || got.Waits != 3*time.Second || len(p.writes) > 0 {
		t.Errorf("with another writer: %+v, %v, writes %v", got, err, p.writes)
	}
	got, err = Apply(t.Context(), p, key, obj, plan, 0)
	if err != nil || !got.Corrected || !got.goes() || got.Reason != ReasonApplyFailed || !slices.Equal(p.writes, []string{"remove"}) {
		t.Errorf("%+v, %v, writes %v", got, err, p.writes)
	}
	p.group = nil
	if got, err = Apply(t.Context(), p, key, obj, plan, 0); err != nil || !got.OK {
		t.Errorf("%+v, %v", got, err)
	}
	if provider, _, _ := unstructured.NestedString(p.group.Object, "spec", "provider"); provider != "proxy" {
		t.Errorf("the provider is %s", provider)
	}
}

func TestARouteThatIsNotWantedGoes(t *testing.T) {
	obj := routed(t)
	p := &parts{group: routeOfSandbox(t, obj, "")}
	unset("spec", "routing")(obj)
	set("1h", "spec", "lifecycle", "sleepAfterUnused")(obj) // what is refused keeps no route
	got, err := Apply(t.Context(), p, key, obj, PlanRoute(obj, words()), 0)
	if err != nil || !got.OK || !got.goes() || !slices.Equal(p.writes, []string{"remove"}) {
		t.Errorf("%+v, %v, writes %v", got, err, p.writes)
	}
	p.group, p.writes = nil, nil
	if got, err := Apply(t.Context(), p, key, obj, PlanRoute(obj, words()), 0); err != nil || !got.OK || got.Part != nil || len(p.writes) > 0 {
		t.Errorf("when it is gone: %+v, %v, writes %v", got, err, p.writes)
	}
	p.group = routeOfSandbox(t, routed(t), "")
	p.group.SetOwnerReferences(nil)
	p.group.SetAnnotations(nil)
	if got, err := Apply(t.Context(), p, key, obj, PlanRoute(obj, words()), 0); err != nil || !got.OK || got.Part != nil || len(p.writes) > 0 {
		t.Errorf("of somebody else: %+v, %v, writes %v", got, err, p.writes)
	}
}
