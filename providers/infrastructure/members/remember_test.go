// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
)

// aMember is the namespace of a warm member.
func aMember() *corev1.Namespace {
	member := placement.Member{
		ID: placement.Bear(fixture.Cluster), SetUID: "set-1", Set: types.NamespacedName{Namespace: "team-a", Name: "warm"}, State: placement.MemberWarm,
	}
	placed := placement.Placed{ID: member.ID, Owner: placement.Owner{Cluster: fixture.Cluster}, Object: types.NamespacedName{Namespace: "team-a", Name: placement.BornInstance}}
	return place.BuildNamespace(fixture.NewScope().In(placed).Of(member))
}

// adoptedOf is the same namespace once an instance has taken it.
func adoptedOf(t *testing.T, member *corev1.Namespace) *corev1.Namespace {
	t.Helper()
	id, _ := placement.IDOf(member)
	adopted := member.DeepCopy()
	labelled := place.BuildNamespace(fixture.NewScope().In(placement.Placed{ID: id, Owner: fixture.Owner, Object: fixture.Placed.Object}))
	adopted.Labels, adopted.Annotations = labelled.Labels, labelled.Annotations
	if _, isMember := placement.MemberOf(adopted); isMember {
		t.Fatal("an adopted namespace is a member still")
	}
	return adopted
}

func newTestMembers(objects ...client.Object) *Members {
	runtime := fake.NewClientBuilder().WithObjects(objects...).WithIndex(&corev1.Namespace{}, Index, Indexed).Build()
	return New(Options{
		Client: runtime, Live: runtime, Provider: func(context.Context) (string, error) { return fixture.Provider, nil },
		Kinds: noKinds{}, Changed: func(export.Key) {},
	})
}

type noKinds struct{}

func (noKinds) MemberKind() (Kind, bool) { return nil, false }

func TestWhatIsRememberedOfAMemberGoesWithIt(t *testing.T) {
	member := aMember()
	m := newTestMembers(member)
	instance := fixture.KroInstance(nil)
	instance.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kro"}})
	m.remember(t.Context(), member.Name, instance)
	kept := m.lookedAt(member.Name)
	if kept == nil || kept == instance || len(kept.GetManagedFields()) > 0 {
		t.Fatalf("remembered is %v", kept)
	}
	m.remember(t.Context(), member.Name, nil)
	if kept := m.lookedAt(member.Name); kept != nil {
		t.Errorf("of one that is not ready %v is remembered", kept)
	}

	m.remember(t.Context(), member.Name, instance)
	adopted := adoptedOf(t, member)
	if err := m.opts.Client.Update(t.Context(), adopted); err != nil {
		t.Fatal(err)
	}
	m.Handler().OnUpdate(member, adopted)
	if kept := m.lookedAt(member.Name); kept != nil {
		t.Errorf("after its adoption %v is remembered", kept)
	}
	m.remember(t.Context(), member.Name, instance) // by a look that began before
	if kept := m.lookedAt(member.Name); kept != nil {
		t.Errorf("a look that began before the adoption leaves %v", kept)
	}
}
