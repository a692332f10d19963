// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
)

func TestTheCopiesOfAGroupAreFound(t *testing.T) {
	w := newCopiesWorld(t)
	if _, err := w.reconciler().groupPlace(t.Context(), testRequest); !errors.Is(err, ErrNotPlaced) {
		t.Errorf("before there are any: %v", err)
	}
	w.settle()
	place, err := w.reconciler().groupPlace(t.Context(), testRequest)
	if err != nil {
		t.Fatal(err)
	}
	meta := place.ObjectMeta("web")
	if place.SandboxID != w.sandboxID() || place.Baseline == nil || place.Baseline.Name != "shop" || !slices.Equal(place.Components, []string{"web"}) ||
		meta.Namespace != w.id().Namespace() || len(meta.Labels) == 0 || place.Group.GetUID() != w.inKCP.GetUID() {
		t.Errorf("%+v, %+v", place, meta)
	}

	path := w.path
	w.path = ""
	if _, err := w.reconciler().groupPlace(t.Context(), testRequest); !errors.Is(err, errPathUnknown) {
		t.Errorf("of a workspace whose path is not known: %v", err)
	}
	w.path = path
	w.settings.Clones.Baselines = nil
	if place, err := w.reconciler().groupPlace(t.Context(), testRequest); err != nil || place.Baseline != nil || place.SandboxID == "" {
		t.Errorf("of a Baseline that is withdrawn: %+v, %v", place, err)
	}
	w.inKCP = nil
	if _, err := w.reconciler().groupPlace(t.Context(), testRequest); !export.IsGone(err) {
		t.Errorf("of a group that is gone: %v", err)
	}
}

func TestWithoutTheirKindThereAreNoGroups(t *testing.T) {
	k := NewKinds("", func(export.Key) {}, func(export.Key) {})
	if _, err := k.Groups().Place(t.Context(), testRequest); !errors.Is(err, ErrNoKind) {
		t.Error(err)
	}
}

// The attack: a pod of another namespace calls a copy past the Gateway.
func TestCopiesLetTheGatewaysOfTheirBaselineIn(t *testing.T) {
	w := newCopiesWorld(t)
	reaches := func(namespace string) bool {
		policy := &networkingv1.NetworkPolicy{}
		if err := w.runtime.Get(t.Context(), client.ObjectKey{Namespace: w.id().Namespace(), Name: "sandbar-ingress"}, policy); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(policy.Spec.String(), namespace)
	}
	w.settle()
	if reaches("edge") {
		t.Error("without routing a Gateway reaches them")
	}
	w.settings.Clones.Baselines[0].Spec.Routing.Gateway.ParentRefs = []sandbarv1alpha1.BaselineParent{{Namespace: "edge", Name: "b"}, {Namespace: "edge", Name: "a"}}
	w.settle()
	if !reaches("edge") || reaches("elsewhere") {
		t.Error("the pods beside its Gateways do not reach them")
	}
	w.settings.Clones.Baselines = nil
	w.settle()
	if reaches("edge") {
		t.Error("a Baseline that is withdrawn leaves its Gateways open")
	}
}
