// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const provider = "providercluster"

var (
	oldKey = []byte("an old key of thirty-two bytes..")
	newKey = []byte("a newer key of thirty-two bytes.")
)

// world is a runtime cluster with some placements.
type world struct {
	t      *testing.T
	client client.WithWatch
	kcp    client.Reader
	writes atomic.Int64
	fail   func(obj client.Object) error
}

func idOf(n int) placement.ID {
	return placement.ID{Origin: "tenantcluster", UID: types.UID(fmt.Sprintf("uid-%d", n))}
}

func newWorld(t *testing.T, placements int) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, sandbarv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t}
	wrote := func(obj client.Object) error {
		w.writes.Add(1)
		if w.fail != nil {
			return w.fail(obj)
		}
		return nil
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := wrote(obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := wrote(obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	for i := range placements {
		builder.WithObjects(namespaceOf(idOf(i), provider))
	}
	w.client = builder.Build()
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	infrastructure.Name = sandbarv1alpha1.InfrastructureProviderName
	infrastructure.Annotations = map[string]string{"kcp.io/cluster": provider}
	w.kcp = fake.NewClientBuilder().WithScheme(scheme).WithObjects(infrastructure).Build()
	return w
}

func namespaceOf(id placement.ID, by string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: id.Namespace(), Labels: id.Labels("sandbox-runner"),
		Annotations: map[string]string{
			placement.AnnotationInstanceNamespace: "default", placement.AnnotationInstanceName: "web", placement.AnnotationProvider: by,
			"not-ours": "x",
		},
	}}
}

func (w *world) placements() placements {
	return placements{writer: Writer{Client: w.client, Live: w.client}, kcp: w.kcp}
}

// reconcile looks at placement n as the controller does.
func (w *world) reconcile(n int) {
	w.t.Helper()
	r := &reconciler{w.placements()}
	if _, err := r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: idOf(n).Namespace()}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) rotation() *rotation {
	return newRotation(w.placements(), nil, Options{RotationsPerSecond: 1e6}, logr.Discard())
}

func (w *world) rotate() {
	w.t.Helper()
	if err := w.rotation().round(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// setKeys writes the provider's keys; none deletes them.
func (w *world) setKeys(entries map[string][]byte) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.ControlKeysSecret}}
	_ = w.client.Delete(w.t.Context(), secret)
	if entries == nil {
		return
	}
	secret.ResourceVersion, secret.Data = "", entries
	if err := w.client.Create(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
	w.writes.Store(0)
}

// secret is the control Secret of placement n.
func (w *world) secret(n int) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: idOf(n).Namespace(), Name: placement.ControlSecret}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// edit changes the control Secret of placement n as somebody with kubectl does.
func (w *world) edit(n int, change func(*corev1.Secret)) {
	w.t.Helper()
	secret := w.secret(n)
	change(secret)
	if err := w.client.Update(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
	w.writes.Store(0)
}

func tokens(s *corev1.Secret) [3]string {
	return [3]string{string(s.Data[placement.ControlTokenKey]), string(s.Data[placement.ControlPreviousKey]), s.Annotations[placement.AnnotationControlKey]}
}

func by(name string, secret []byte, n int) string { return key{name, secret}.token(idOf(n)) }

func TestADerivedTokenIsMadeAgainAsItWas(t *testing.T) {
	w := newWorld(t, 2)
	w.setKeys(map[string][]byte{"20260101T000000Z": oldKey})
	w.reconcile(0)
	w.reconcile(1)
	made := w.secret(0)
	if diff := cmp.Diff([3]string{by("", oldKey, 0), "", "20260101T000000Z"}, tokens(made)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if tokens(made)[0] == tokens(w.secret(1))[0] || len(tokens(made)[0]) != 43 {
		t.Errorf("the tokens are %v and %v", tokens(made), tokens(w.secret(1)))
	}
	wantAnnotations := map[string]string{placement.AnnotationProvider: "providercluster", placement.AnnotationControlKey: "20260101T000000Z"}
	if diff := cmp.Diff(wantAnnotations, made.Annotations); diff != "" || made.Labels[placement.LabelInstanceUID] != "uid-0" {
		t.Errorf("its labels are %v, its annotations (-want +got):\n%s", made.Labels, diff)
	}
	for name, change := range map[string]func(*corev1.Secret){
		"edited":             func(s *corev1.Secret) { s.Data[placement.ControlTokenKey] = []byte("typed by somebody") },
		"emptied":            func(s *corev1.Secret) { s.Data = nil },
		"without its labels": func(s *corev1.Secret) { s.Labels = nil },
		"with an entry more": func(s *corev1.Secret) {
			s.Data[placement.ControlTokenKey], s.Data["x"] = []byte("typed by somebody"), []byte("y")
		},
		"edited, and its key too": func(s *corev1.Secret) {
			s.Data[placement.ControlTokenKey] = []byte("typed")
			delete(s.Labels, placement.LabelTemplate)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w.edit(0, change)
			w.reconcile(0)
			if diff := cmp.Diff(made.Data, w.secret(0).Data); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(made.Labels, w.secret(0).Labels); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			w.writes.Store(0)
			if w.reconcile(0); w.writes.Load() != 0 {
				t.Errorf("%d writes at rest", w.writes.Load())
			}
		})
	}
	t.Run("deleted", func(t *testing.T) {
		if err := w.client.Delete(t.Context(), w.secret(0)); err != nil {
			t.Fatal(err)
		}
		w.reconcile(0)
		if diff := cmp.Diff(tokens(made), tokens(w.secret(0))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// Tokens that were made up before there were keys are in pods that read them once.
func TestATokenThatWasMadeUpStays(t *testing.T) {
	w := newWorld(t, 1)
	w.reconcile(0)
	made := w.secret(0)
	if len(tokens(made)[0]) != 43 || tokens(made)[2] != "" {
		t.Fatalf("without keys the Secret is %v", tokens(made))
	}
	w.setKeys(map[string][]byte{"a": oldKey})
	w.reconcile(0)
	w.rotate()
	if diff := cmp.Diff(tokens(made), tokens(w.secret(0))); diff != "" || w.writes.Load() != 0 {
		t.Errorf("%d writes, -want +got:\n%s", w.writes.Load(), diff)
	}
	t.Run("unless the operator says that it may go", func(t *testing.T) {
		w.edit(0, func(s *corev1.Secret) {
			s.Annotations[placement.AnnotationControlKey] = "rotate"
		})
		w.rotate()
		if got := tokens(w.secret(0)); got != [3]string{by("", oldKey, 0), "", "a"} {
			t.Errorf("got %v", got)
		}
	})
	t.Run("and one without keys is another each time", func(t *testing.T) {
		w.setKeys(nil)
		seen := map[string]bool{}
		for range 20 {
			if err := w.client.Delete(t.Context(), w.secret(0)); err != nil {
				t.Fatal(err)
			}
			w.reconcile(0)
			seen[tokens(w.secret(0))[0]] = true
		}
		if len(seen) != 20 {
			t.Errorf("%d tokens of 20", len(seen))
		}
	})
}

func TestARotation(t *testing.T) {
	w := newWorld(t, 3)
	w.setKeys(map[string][]byte{"20260101T000000Z": oldKey})
	for n := range 3 {
		w.reconcile(n)
	}
	step := func(name string, entries map[string][]byte, want func(n int) [3]string) {
		t.Helper()
		w.setKeys(entries)
		for n := range 3 {
			before := tokens(w.secret(n))
			if w.reconcile(n); tokens(w.secret(n)) != before {
				t.Errorf("%s: placement %d was changed out of its turn", name, n)
			}
		}
		w.writes.Store(0)
		w.rotate()
		if w.writes.Load() != 3 {
			t.Errorf("%s: %d writes for 3 placements", name, w.writes.Load())
		}
		for n := range 3 {
			if diff := cmp.Diff(want(n), tokens(w.secret(n))); diff != "" {
				t.Errorf("%s: placement %d (-want +got):\n%s", name, n, diff)
			}
		}
		w.writes.Store(0)
		if w.rotate(); w.writes.Load() != 0 {
			t.Errorf("%s: %d writes at rest", name, w.writes.Load())
		}
	}
	step("a new key", map[string][]byte{"20260101T000000Z": oldKey, "20260201T000000Z": newKey}, func(n int) [3]string {
		return [3]string{by("", newKey, n), by("", oldKey, n), "20260201T000000Z"}
	})
	t.Run("a Secret that is deleted meanwhile knows both", func(t *testing.T) {
		if err := w.client.Delete(t.Context(), w.secret(1)); err != nil {
			t.Fatal(err)
		}
		w.reconcile(1)
		if got := tokens(w.secret(1)); got != [3]string{by("", newKey, 1), by("", oldKey, 1), "20260201T000000Z"} {
			t.Errorf("got %v", got)
		}
	})
	step("the old one taken away", map[string][]byte{"20260201T000000Z": newKey}, func(n int) [3]string {
		return [3]string{by("", newKey, n), "", "20260201T000000Z"}
	})
	w.setKeys(nil)
	before := tokens(w.secret(0))
	w.rotate()
	if w.reconcile(0); tokens(w.secret(0)) != before {
		t.Error("without keys a token was changed")
	}
}

// An operator who types an entry that is no key must not lose those that are.
func TestEntriesThatAreNoKeys(t *testing.T) {
	k, bad := parseKeys(map[string][]byte{"c": []byte("short"), "a": oldKey, "b": newKey, "d": nil})
	if len(k) != 2 || k[0].name != "b" || k[1].name != "a" || strings.Join(bad, " ") != "d c" {
		t.Errorf("got %v, bad %v", k, bad)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", k, k, k, k[0]); strings.Contains(text, "thirty") {
		t.Errorf("printed: %s", text)
	}
}

func TestWhatIsNoPlacementOfOursIsLeftAlone(t *testing.T) {
	w := newWorld(t, 0)
	w.setKeys(map[string][]byte{"a": oldKey})
	foreign, mislabelled, ending := namespaceOf(idOf(0), "another-provider"), namespaceOf(idOf(1), provider), namespaceOf(idOf(2), provider)
	mislabelled.Labels[placement.LabelInstanceUID] = "uid-of-another"
	ending.Finalizers = []string{"x"}
	for _, ns := range []*corev1.Namespace{foreign, mislabelled, ending} {
		if err := w.client.Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Delete(t.Context(), ending); err != nil {
		t.Fatal(err)
	}
	w.writes.Store(0)
	for n := range 4 {
		w.reconcile(n)
	}
	if w.rotate(); w.writes.Load() != 0 {
		t.Errorf("%d writes", w.writes.Load())
	}
}

func TestARotationIsPacedAndGoesOn(t *testing.T) {
	w := newWorld(t, 5)
	w.setKeys(map[string][]byte{"a": oldKey})
	for n := range 5 {
		w.reconcile(n)
	}
	w.setKeys(map[string][]byte{"a": oldKey, "b": newKey})
	r := newRotation(w.placements(), nil, Options{RotationsPerSecond: 100}, logr.Discard())
	began := time.Now()
	refused := idOf(2).Namespace()
	w.fail = func(obj client.Object) error {
		if obj.GetNamespace() == refused {
			return apierrors.NewConflict(corev1.Resource("secrets"), obj.GetName(), errors.New("changed"))
		}
		return nil
	}
	if err := r.round(t.Context()); err == nil {
		t.Error("a write that failed is no error")
	}
	if took := time.Since(began); took < 40*time.Millisecond {
		t.Errorf("5 placements at 100 a second took %v", took)
	}
	w.fail = nil
	if err := r.round(t.Context()); err != nil {
		t.Error(err)
	}
	for n := range 5 {
		if got := tokens(w.secret(n))[2]; got != "b" {
			t.Errorf("placement %d has the token of key %q", n, got)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	w.setKeys(map[string][]byte{"b": newKey})
	if err := r.round(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a round that was cancelled: %v", err)
	}
}

// A Secret can be made with keys that were read just before they changed, after the round for that change
// has passed its placement.
func TestASecretThatARoundMissedIsRotatedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.setKeys(map[string][]byte{"a": oldKey, "b": newKey})
		ctx, cancel := context.WithCancel(t.Context())
		r := newRotation(w.placements(), nil, Options{RotationsPerSecond: 100}, logr.Discard())
		done := make(chan struct{})
		go func() { defer close(done); r.follow(ctx) }()
		synctest.Wait()
		w.setKeys(map[string][]byte{"a": oldKey})
		w.reconcile(0) // the round has been
		w.setKeys(map[string][]byte{"a": oldKey, "b": newKey})
		time.Sleep(rotateEvery + time.Second)
		synctest.Wait()
		if got := tokens(w.secret(0))[2]; got != "b" {
			t.Errorf("the placement has the token of key %q", got)
		}
		cancel()
		<-done
	})
}

func TestASecretThatTheCacheDoesNotShow(t *testing.T) {
	w := newWorld(t, 1)
	w.setKeys(map[string][]byte{"a": oldKey})
	live := w.secretUnseen()
	writer := Writer{Client: &blind{WithWatch: w.client}, Live: w.client}
	if err := writer.Ensure(t.Context(), metaOf(namespaceOf(idOf(0), provider)), idOf(0)); err != nil {
		t.Fatal(err)
	}
	if got := w.secret(0); string(got.Data[placement.ControlTokenKey]) != string(live.Data[placement.ControlTokenKey]) || got.Labels[placement.LabelInstanceUID] == "" {
		t.Errorf("got %v %v", tokens(got), got.Labels)
	}
}

// secretUnseen makes a Secret that was made up, and has lost its labels.
func (w *world) secretUnseen() *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: idOf(0).Namespace(), Name: placement.ControlSecret},
		Data:       map[string][]byte{placement.ControlTokenKey: []byte("made-up-long-ago-and-in-use")},
	}
	if err := w.client.Create(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// blind is a cache that shows no control Secret.
type blind struct{ client.WithWatch }

func (b *blind) Get(ctx context.Context, name types.NamespacedName, obj client.Object, opts ...client.GetOption) error {
	if name.Name == placement.ControlSecret {
		return apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
	}
	return b.WithWatch.Get(ctx, name, obj, opts...)
}

// increase() sees nothing of a series that appears with its first event.
func TestWhatAnAlertReadsOfWritesIsThereBeforeTheFirst(t *testing.T) {
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	if series := `sandbar_control_token_writes_total{result="failed"}`; !strings.Contains(rec.Body.String(), series) {
		t.Errorf("there is no %s", series)
	}
}

func TestTheMetricsTellHowFarARotationIs(t *testing.T) {
	w := newWorld(t, 4)
	w.reconcile(3) // made up
	w.setKeys(map[string][]byte{"a": oldKey})
	for n := range 3 {
		w.reconcile(n)
	}
	w.edit(2, func(s *corev1.Secret) { s.Annotations[placement.AnnotationControlKey] = "lost" })
	w.setKeys(map[string][]byte{"a": oldKey, "b": newKey})
	if _, err := w.rotation().rotate(t.Context(), namespaceOf(idOf(0), provider), keys{{"b", newKey}, {"a", oldKey}}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{runtime: w.client})
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	for _, line := range []string{
		"sandbar_control_keys 2", `sandbar_control_tokens{key="a"} 1`, `sandbar_control_tokens{key="b"} 1`,
		`sandbar_control_tokens{key="none"} 1`, `sandbar_control_tokens{key="unknown"} 1`,
	} {
		if !strings.Contains(rec.Body.String(), "\n"+line+"\n") {
			t.Errorf("the metrics do not say %s:\n%s", line, rec.Body.String())
		}
	}
}
