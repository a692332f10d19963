// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/offer"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

// valuesWorld is two Templates with the same resources, the first of which has made the values of their
// revision.
type valuesWorld struct {
	*testing.T
	*reconciler

	// having is the resource whose kro instances have the revision.
	having string
}

const sharedRevision = "11111111-22222222"

func newValuesWorld(t *testing.T) *valuesWorld {
	t.Helper()
	w := &valuesWorld{T: t}
	cluster := httptest.NewServer(w)
	t.Cleanup(cluster.Close)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		sandbarv1alpha1.AddToScheme, kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme, rbacv1.AddToScheme, corev1.AddToScheme, krov1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(sharing("first"), sharing("second")).Build()
	w.reconciler = &reconciler{
		opts: Options{}.withDefaults(), kcp: c, offers: &offer.Offers{KCP: c, Policy: c, ExportName: sandbarv1alpha1.GroupName}, runtime: c, runtimeConfig: &rest.Config{Host: cluster.URL},
		rollouts: rollout.NewTracker(time.Now, nil), narrowings: map[string]*narrowing{"first": {}},
	}
	if err := w.keepValues(t.Context(), "first", sharedRevision, map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	return w
}

func sharing(name string) *sandbarv1alpha1.Template {
	tmpl := &sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{Finalizer}}}
	tmpl.Status.Group, tmpl.Status.Version, tmpl.Status.Resource = sandbarv1alpha1.GroupName, "v1alpha1", name+"s"
	tmpl.Status.Rollout = &sandbarv1alpha1.RolloutStatus{Revision: sharedRevision, Phase: sandbarv1alpha1.RolloutComplete}
	return tmpl
}

// ServeHTTP answers to lists of kro instances.
func (w *valuesWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	item := ""
	if w.having != "" && strings.HasSuffix(r.URL.Path, "/"+w.having) && r.URL.Query().Get("labelSelector") == placement.LabelRevision+"="+sharedRevision {
		item = `{"metadata":{"name":"one"}}`
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(rw, `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{},"items":[%s]}`, item)
}

func (w *valuesWorld) template(name string) *sandbarv1alpha1.Template {
	w.Helper()
	tmpl := &sandbarv1alpha1.Template{}
	if err := w.kcp.Get(w.Context(), types.NamespacedName{Name: name}, tmpl); err != nil {
		w.Fatal(err)
	}
	return tmpl
}

func (w *valuesWorld) wantValues(when string, want bool) {
	w.Helper()
	key := types.NamespacedName{Namespace: placement.SystemNamespace, Name: revision.ConfigMap(sharedRevision)}
	err := w.runtime.Get(w.Context(), key, &corev1.ConfigMap{})
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	if there := !apierrors.IsNotFound(err); there != want {
		w.Errorf("%s the values are there: %v, want %v", when, there, want)
	}
}

// collect has the second Template collect values, with a status of its own.
func (w *valuesWorld) collect(status *sandbarv1alpha1.RolloutStatus) {
	w.Helper()
	tmpl := w.template("second")
	tmpl.Status.Rollout = status
	if err := w.collectValues(w.Context(), tmpl, make([]revision.Graph, 1)); err != nil {
		w.Fatal(err)
	}
}

// The name of a revision is that of its resources and values, so Templates can have the same one. The
// first that went took the values from the instances of the other.
func TestValuesOfARevisionStayUntilNoTemplateUsesThem(t *testing.T) {
	w := newValuesWorld(t)
	if err := w.kcp.Delete(t.Context(), w.template("first")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.retire(t.Context(), w.template("first")); err != nil {
		t.Fatal(err)
	}
	if err := w.kcp.Get(t.Context(), types.NamespacedName{Name: "first"}, &sandbarv1alpha1.Template{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the first Template is still there: %v", err)
	}
	w.wantValues("when the Template that made them is gone and the other has the revision", true)
	if len(w.narrowings) > 0 {
		t.Error("a narrowing of a Template that is to go is remembered")
	}

	other := &sandbarv1alpha1.RolloutStatus{Revision: "another", Phase: sandbarv1alpha1.RolloutComplete}
	w.having = "seconds"
	w.collect(other)
	w.wantValues("while an instance of the other has the revision", true)
	w.having = ""
	w.collect(&sandbarv1alpha1.RolloutStatus{Revision: "another", Former: sharedRevision, Phase: sandbarv1alpha1.RolloutComplete})
	w.wantValues("while it is the former revision of the other", true)
	w.collect(other)
	w.wantValues("when nobody uses them, although another Template made them,", false)
}

func TestValuesOfARevisionAreCollectedByTheTemplateThatMadeThem(t *testing.T) {
	w := newValuesWorld(t)
	first := w.template("first")
	first.Status.Rollout = &sandbarv1alpha1.RolloutStatus{Revision: "another", Phase: sandbarv1alpha1.RolloutProgressing}
	if err := w.kcp.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.collect(&sandbarv1alpha1.RolloutStatus{Revision: "another", Phase: sandbarv1alpha1.RolloutComplete})
	w.wantValues("while the Template that made them rolls out another revision", true)
}

func TestEveryTemplateIsWokenWhenTheValuesOfARevisionAreDeleted(t *testing.T) {
	w := newValuesWorld(t)
	for name, want := range map[string]int{placement.PlatformConfigMap: 2, revision.ConfigMap(sharedRevision): 2, "another": 0} {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if want > 0 && name != placement.PlatformConfigMap {
			config.Labels = map[string]string{placement.LabelTemplate: "gone", placement.LabelRevision: sharedRevision}
		}
		if got := len(w.byPlatform(t.Context(), config)); got != want {
			t.Errorf("%s wakes %d Templates, want %d", name, got, want)
		}
	}
}
