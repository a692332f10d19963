// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

const (
	configText  = `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: prod, name: sandbar-proxy-routes, uid: c, labels: {app.kubernetes.io/managed-by: sandbar}, annotations: {sandbar.dev/provider: us}}, data: {web.a: '{"uid":"a","route":{"cluster":"c","namespace":"shop","name":"r-a"}}'}}`
	plainText   = `{apiVersion: v1, kind: Service, metadata: {namespace: prod, name: api, uid: s1}, spec: {selector: {app: api}}}`
	webText     = `{apiVersion: v1, kind: Service, metadata: {namespace: prod, name: web, uid: s2}, spec: {selector: {app: web}}}`
	leftText    = `{apiVersion: v1, kind: Service, metadata: {namespace: prod, name: left, uid: s3, annotations: {sandbar.dev/original-selector: '{}'}}, spec: {selector: {app: left}}}`
	orphanText  = `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: prod, name: sandbar-proxy-orphan, uid: d1, labels: {sandbar.dev/intercepts: orphan}}, spec: {replicas: 2}}`
	foreignText = `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: prod, name: api, uid: d2}, spec: {replicas: 2}}`
	otherText   = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: prod, name: api-x, uid: e2, labels: {kubernetes.io/service-name: api}}, endpoints: []}`
	behindText  = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: prod, name: gone-x, uid: e3, labels: {sandbar.dev/intercepts: gone, kubernetes.io/service-name: gone-sandbar-baseline}}, endpoints: []}`
	sliceText   = `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: prod, name: web-x, uid: e1, labels: {kubernetes.io/service-name: web}}, endpoints: []}`
)

// beginWatch follows a cluster, and returns the Services and routes that are looked at. The provider is called us.
func beginWatch(t *testing.T, texts ...string) (*watch, *fake.FakeDynamicClient, chan string) {
	t.Helper()
	var objects []runtime.Object
	for _, text := range texts {
		objects = append(objects, objectOf(t, text))
	}
	kinds := map[schema.GroupVersionResource]string{configMaps: "ConfigMapList"}
	for i, kind := range []string{"ServiceList", "DeploymentList", "EndpointSliceList"} {
		kinds[inANamespaceOf[i]] = kind
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
	told := make(chan string, 1000)
	w := newWatch(client)
	w.wake = func(name types.NamespacedName) { told <- name.String() }
	w.routeChanged = func(key export.Key) { told <- "route " + key.Name }
	t.Cleanup(func() { w.end(); w.wg.Wait() })
	w.believe("us")
	w.start()
	return w, client, told
}

// await waits until all of some are told, and fails the test if one of others is.
func await(t *testing.T, told <-chan string, wanted []string, never ...string) {
	t.Helper()
	missing := slices.Clone(wanted)
	for len(missing) > 0 {
		select {
		case one := <-told:
			if slices.Contains(never, one) {
				t.Errorf("%s is looked at", one)
			}
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == one })
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody looks at %v", missing)
		}
	}
}

// awaitKnown waits until all that is asked for is known.
func awaitKnown(t *testing.T, w *watch) {
	t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		if _, known := w.items(); known == follow.Known {
			return
		}
		select {
		case <-deadline:
			t.Fatal("what is asked for is never known")
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitAsked waits until the Services that are asked for are these: a change is told of before its namespace is followed.
func awaitAsked(t *testing.T, w *watch, want ...types.NamespacedName) {
	t.Helper()
	var all []types.NamespacedName
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if all = w.all(); slices.Equal(all, want) {
			return
		}
	}
	t.Fatalf("asked for is %v", all)
}

func TestWhatIsAskedForAndWhatIsLeftOverIsLookedAt(t *testing.T) {
	w, client, told := beginWatch(t, configText, plainText, webText, leftText, orphanText, foreignText)
	await(t, told, []string{"prod/web", "route r-a", "prod/left", "prod/orphan"}, "prod/api")
	if all := w.all(); !slices.Equal(all, []types.NamespacedName{{Namespace: "prod", Name: "web"}}) {
		t.Errorf("asked for is %v", all)
	}
	in := func(i int) func(text string) {
		return func(text string) {
			t.Helper()
			obj := objectOf(t, text)
			if _, err := client.Resource(inANamespaceOf[i]).Namespace("prod").Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	in(2)(otherText) // each pod of a busy namespace would have its Service looked at
	in(2)(behindText)
	in(2)(sliceText)
	await(t, told, []string{"prod/gone", "prod/web"}, "prod/api")
}

func TestANamespaceIsFollowedWhileItsConfigMapIsThere(t *testing.T) {
	w, client, told := beginWatch(t, plainText, webText, leftText)
	configs := client.Resource(configMaps).Namespace("prod")
	if _, err := configs.Create(t.Context(), objectOf(t, configText), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, []string{"prod/web", "route r-a", "prod/left"}, "prod/api")
	must(t, configs.Delete(t.Context(), intercept.RoutesConfigMap, metav1.DeleteOptions{}))
	await(t, told, []string{"prod/web", "route r-a"})
	for deadline := time.After(20 * time.Second); len(w.all()) > 0; {
		select {
		case <-deadline:
			t.Fatal("its namespace is still followed")
		case <-told:
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestAChangeThatMakesNoDifferenceIsNotLookedAt(t *testing.T) {
	before := keepPart(objectOf(t, webText))
	after := objectOf(t, webText)
	after.SetResourceVersion("2")
	after.SetAnnotations(map[string]string{"a": "b"})
	if !before.same(keepPart(after)) {
		t.Error("an annotation is a difference")
	}
	must(t, unstructured.SetNestedField(after.Object, "web2", "spec", "selector", "app"))
	if before.same(keepPart(after)) {
		t.Error("another selector is not one")
	}
	if keepPart(objectOf(t, foreignText)).says != nil {
		t.Error("what is of no concern is kept")
	}
}

// A Service whose labels change may be one of the Baseline's no more, which its routes have to find out.
func TestOtherLabelsOfAServiceHaveItsRoutesLookedAt(t *testing.T) {
	_, client, told := beginWatch(t, configText, plainText, webText)
	await(t, told, []string{"prod/web", "route r-a"})
	services := client.Resource(inANamespaceOf[0]).Namespace("prod")
	if _, err := services.Create(t.Context(), objectOf(t, leftText), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, []string{"prod/left"}) // so the Services are followed
	for len(told) > 0 {
		<-told
	}
	web := objectOf(t, webText)
	web.SetLabels(map[string]string{"tier": "back"})
	if _, err := services.Update(t.Context(), web, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, told, []string{"route r-a"}, "prod/api")
}

func TestConfigMapsThatWereNotGrantedAreNotFollowed(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"without the label":   {"app.kubernetes.io/managed-by: sandbar", "a: b"},
		"of another provider": {"sandbar.dev/provider: us", "sandbar.dev/provider: them"},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := strings.NewReplacer("namespace: prod", "namespace: theirs", "uid: c,", "uid: t,", "r-a", "r-t", c.before, c.after).Replace(configText)
			w, client, told := beginWatch(t, theirs)
			if _, err := client.Resource(configMaps).Namespace("prod").Create(t.Context(), objectOf(t, configText), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			await(t, told, []string{"prod/web", "route r-a"}, "theirs/web", "route r-t")
			awaitAsked(t, w, types.NamespacedName{Namespace: "prod", Name: "web"})
			w.mu.Lock()
			followed := len(w.in["theirs"])
			w.mu.Unlock()
			if followed > 0 {
				t.Error("its namespace is followed")
			}
			// One that becomes one of ours is.
			if _, err := client.Resource(configMaps).Namespace("theirs").Update(t.Context(), objectOf(t, strings.Replace(theirs, c.after, c.before, 1)), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			await(t, told, []string{"theirs/web", "route r-t"})
		})
	}
}

// The provider may be known later than the first ConfigMaps.
func TestOnceTheProviderIsKnownThoseOfOthersAreLeft(t *testing.T) {
	w, _, told := beginWatch(t, configText, webText)
	await(t, told, []string{"prod/web", "route r-a"})
	awaitKnown(t, w)
	w.believe("them")
	if all, _ := w.items(); len(all) > 0 || len(w.all()) > 0 {
		t.Errorf("it follows %v", w.all())
	}
	w.believe("us")
	await(t, told, []string{"prod/web", "route r-a"})
}
