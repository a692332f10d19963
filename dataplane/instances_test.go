// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
)

// kindOfRunners is the kind that these tests are about.
func (w *world) kindOfRunners() *locate.Kind {
	return w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"})
}

// prune makes the data plane's copy of the demo one that was read under a schema without its outputs.
func (w *world) prune(state string) {
	w.t.Helper()
	pruned := kroInstance(demoID, "demo", map[string]any{"state": state})
	if err := w.kindOfRunners().Instances.StoreForTest().Update(pruned); err != nil {
		w.t.Fatal(err)
	}
}

// isWhole reports whether the copy has the outputs that the API server has.
func (w *world) isWhole() bool {
	instance := w.kindOfRunners().Instances.Get(demoID.Namespace(), "demo")
	status, _ := instance.Object["status"].(map[string]any)
	return status["controlServiceRef"] != nil
}

// reads counts what was asked of the runtime cluster about instances, by verb.
func (w *world) reads(verb string) (n int) {
	for _, action := range w.kros.(*dynamicfake.FakeDynamicClient).Actions() {
		if action.GetVerb() == verb {
			n++
		}
	}
	return n
}

// A Template that gained a verb left its instances' new outputs out of the data plane's copies, and
// callers with 409 for as long as nothing else changed.
func TestAChangedSchemaHasTheInstancesReadAgain(t *testing.T) {
	w := newWorld(t, recorder())
	k := w.server.kinds
	apply := func(schema string) {
		template := runnerTemplate()
		template.Status.RuntimeSchema = schema
		if err := k.TemplatesForTest().Update(template); err != nil {
			t.Fatal(err)
		}
		k.RebuildForTest(t.Context())
	}
	apply("uid/1")
	lists := w.reads("list")
	apply("uid/1")
	w.prune("IN_PROGRESS")
	apply("uid/2")
	eventually(t, "the instances were listed again", w.isWhole)
	if got := w.reads("list"); got <= lists {
		t.Errorf("%d lists, had %d", got, lists)
	}
}

func TestACopyThatLeadsNowhereIsCheckedWhenAllIsMade(t *testing.T) {
	t.Run("the API server knows more", func(t *testing.T) {
		w := newWorld(t, recorder())
		w.prune("ACTIVE")
		if res, body := w.do("POST", demo+"sync", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Fatalf("code %d: %s", res.StatusCode, body)
		}
		eventually(t, "the other copies were read again, too", w.isWhole)
	})
	t.Run("not while it is being made", func(t *testing.T) {
		w := newWorld(t, recorder())
		w.prune("IN_PROGRESS")
		res, body := w.do("POST", demo+"sync", adminToken, nil)
		wantStatus(t, res, body, http.StatusConflict)
		if got := w.reads("get"); got != 0 {
			t.Errorf("asked %d times", got)
		}
	})
	t.Run("many requests ask once", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.status = map[string]any{"state": "ACTIVE"} })
		for range 20 {
			res, body := w.do("POST", demo+"sync", adminToken, nil)
			wantStatus(t, res, body, http.StatusConflict)
		}
		if got := w.reads("get"); got < 1 || got > 5 {
			t.Errorf("asked %d times for 20 requests within moments", got)
		}
	})
	t.Run("what the API server shows must be the instance's own", func(t *testing.T) {
		w := newWorld(t, recorder(), func(s *setup) { s.status = map[string]any{"state": "ACTIVE"} })
		forged := kroInstance(demoID, "demo", demoStatus(demoID.Namespace()))
		forged.SetLabels(map[string]string{})
		w.kros.(*dynamicfake.FakeDynamicClient).PrependReactor("get", "sandboxrunners", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, forged, nil
		})
		res, body := w.do("POST", demo+"sync", adminToken, nil)
		wantStatus(t, res, body, http.StatusConflict)
	})
}

// The schemas of Templates and of the InfrastructureProvider are followed by nobody.
func TestTemplatesAreListedAgainNowAndThen(t *testing.T) {
	w := newWorld(t, recorder())
	old := runnerTemplate()
	old.Spec.DataPlane = sandbarv1alpha1.DataPlane{}
	if err := w.server.kinds.TemplatesForTest().Update(old); err != nil {
		t.Fatal(err)
	}
	w.server.kinds.RenewForTest()
	eventually(t, "the Template is whole again", func() bool {
		obj, _, _ := w.server.kinds.TemplatesForTest().GetByKey("sandbox-runner")
		template, ok := obj.(*sandbarv1alpha1.Template)
		return ok && len(template.Spec.DataPlane.Endpoints) > 0
	})
}
