// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package frozen

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var metadata = metav1.ObjectMeta{Namespace: "sb-web", Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy}}

func newStore(t *testing.T) Store {
	t.Helper()
	cluster := fake.NewClientBuilder().Build()
	return Store{Live: cluster, Client: cluster, FieldOwner: "test"}
}

func newFrozen(t *testing.T) *Frozen {
	t.Helper()
	f, err := New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// component is one that was frozen of Deployment name; a variable of its container has the text.
func component(name, text string) Component {
	return Component{Time: time.Date(2026, 11, 28, 17, 0, 0, 0, time.UTC), Snapshot: &clone.Snapshot{
		Source: clone.Source{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}, Replicas: 2,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "ghcr.io/acme/shop:1", Env: []corev1.EnvVar{{Name: "TEXT", Value: text}},
		}}}},
	}}
}

func TestWhatWasFrozenIsReadAgain(t *testing.T) {
	s, f := newStore(t), newFrozen(t)
	if before, err := s.Read(t.Context(), "sb-web"); before != nil || err != nil {
		t.Fatalf("a placement without any has %v, %v", before, err)
	}
	f.Components["web"], f.Components["api"] = component("frontend", "a"), component("backend", "b")
	asked := f.Components["web"]
	asked.Asked, asked.Labels = asked.Time.Add(time.Minute), map[string]string{"tier": "web"}
	f.Components["web"], f.Copied["Secret/db"] = asked, "shop"
	f.Sessions = map[string]devsession.Record{"web": devsession.Record{Name: "try", UID: "s", Spec: sandbarv1alpha1.DevSessionSpec{Workload: "web", TargetPath: "/app"}}.At(devsession.Serving, asked.Time)}
	unlabelled := component("mail", "c")
	unlabelled.Labels = map[string]string{}
	f.Components["mail"] = unlabelled
	if err := s.Write(t.Context(), metadata, f); err != nil {
		t.Fatal(err)
	}
	again, err := s.Read(t.Context(), "sb-web")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, again, cmpopts.IgnoreUnexported(Frozen{}), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if again.Components["api"].Labels != nil || again.Components["mail"].Labels == nil {
		t.Errorf("labels that are not known and none at all are not told apart: %v, %v", again.Components["api"].Labels, again.Components["mail"].Labels)
	}
	delete(again.Components, "web")
	if err := s.Write(t.Context(), metadata, again); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Read(t.Context(), "sb-web"); err != nil || len(now.Components) != 2 || now.ID != f.ID || !now.Sessions["web"].Same(f.Sessions["web"]) {
		t.Errorf("%+v, %v", now, err)
	}
	stored := &corev1.ConfigMap{}
	if err := s.Live.Get(t.Context(), client.ObjectKey{Namespace: "sb-web", Name: placement.SnapshotsConfigMap}, stored); err != nil || stored.Labels[placement.LabelManagedBy] == "" {
		t.Errorf("it has not the labels of the placement: %v, %v", stored.Labels, err)
	}
}

func TestOfTwoWritersTheFirstDecides(t *testing.T) {
	s, first, second := newStore(t), newFrozen(t), newFrozen(t)
	if err := s.Write(t.Context(), metadata, first); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), metadata, second); !errors.Is(err, ErrChanged) {
		t.Errorf("a second controller gave another ID: %v", err)
	}
	slow, err := s.Read(t.Context(), "sb-web")
	if err != nil || slow.ID != first.ID {
		t.Fatalf("%+v, %v", slow, err)
	}
	first.Components["web"] = component("frontend", "a")
	if err := s.Write(t.Context(), metadata, first); err != nil {
		t.Fatal(err)
	}
	slow.Components["web"] = component("other", "b")
	if err := s.Write(t.Context(), metadata, slow); !errors.Is(err, ErrChanged) {
		t.Errorf("a controller that was late undid the other's snapshot: %v", err)
	}
	gone := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "sb-web", Name: placement.SnapshotsConfigMap}}
	if err := s.Client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), metadata, first); !errors.Is(err, ErrChanged) {
		t.Errorf("what was read is gone: %v", err)
	}
}

func TestASnapshotIsOfOneSource(t *testing.T) {
	f := newFrozen(t)
	f.Components["web"] = component("frontend", "a")
	source := f.Components["web"].Snapshot.Source
	if f.Of("web", source, time.Time{}) == nil {
		t.Error("it is not found")
	}
	other := source
	other.Name = "backend"
	if f.Of("web", other, time.Time{}) != nil || f.Of("api", source, time.Time{}) != nil {
		t.Error("what was frozen of another source, or for another component, is found")
	}
}

func TestSnapshotsThatDoNotFitTogetherAreRefused(t *testing.T) {
	s, f := newStore(t), newFrozen(t)
	for _, name := range []string{"a", "b", "c"} {
		random := make([]byte, 180<<10) // as hexadecimal digits it compresses to about its own size
		if _, err := rand.Read(random); err != nil {
			t.Fatal(err)
		}
		f.Components[name] = component(name, hex.EncodeToString(random))
	}
	if err := s.Write(t.Context(), metadata, f); err != nil {
		t.Errorf("within the bound: %v", err)
	}
	for _, name := range []string{"d", "e", "f"} {
		f.Components[name] = component(name, f.Components["a"].Snapshot.Template.Spec.Containers[0].Env[0].Value+name)
	}
	var refused *clone.RefusedError
	if err := s.Write(t.Context(), metadata, f); !errors.As(err, &refused) || !strings.Contains(err.Error(), "983040 is the most") {
		t.Errorf("beyond the bound: %v", err)
	}
	if now, err := s.Read(t.Context(), "sb-web"); err != nil || len(now.Components) != 3 {
		t.Errorf("what there was is not there any more: %v", err)
	}
}

func TestAConfigMapThatIsDamagedIsAnError(t *testing.T) {
	for name, damage := range map[string]func(*corev1.ConfigMap){
		"without an ID":         func(m *corev1.ConfigMap) { delete(m.Data, keyID) },
		"with other times":      func(m *corev1.ConfigMap) { m.Data[keyTimes] = "x" },
		"with other labels":     func(m *corev1.ConfigMap) { m.Data[keyLabels] = "x" },
		"with other copies":     func(m *corev1.ConfigMap) { m.Data[keyCopied] = "x" },
		"with other sessions":   func(m *corev1.ConfigMap) { m.Data[keySessions] = "x" },
		"with a damaged source": func(m *corev1.ConfigMap) { m.BinaryData["web"] = []byte("x") },
	} {
		t.Run(name, func(t *testing.T) {
			s, f := newStore(t), newFrozen(t)
			f.Components["web"] = component("frontend", "a")
			if err := s.Write(t.Context(), metadata, f); err != nil {
				t.Fatal(err)
			}
			stored := &corev1.ConfigMap{}
			if err := s.Live.Get(t.Context(), client.ObjectKey{Namespace: "sb-web", Name: placement.SnapshotsConfigMap}, stored); err != nil {
				t.Fatal(err)
			}
			damage(stored)
			if err := s.Client.Update(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			if read, err := s.Read(t.Context(), "sb-web"); err == nil || read != nil {
				t.Errorf("it reads %+v", read)
			}
		})
	}
}
