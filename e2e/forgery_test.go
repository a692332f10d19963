// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestForgedReferences is promise 3: nothing that a tenant can write, and nothing that it can
// put into a path, decides where a request goes.
func TestForgedReferences(t *testing.T) {
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	c := callAs(t, tn.token)
	box.deploy(c, "genuine")

	t.Run("a cluster-admin of the workspace cannot write status", func(t *testing.T) {
		c := c.on(t)
		patch := []byte(`{"status":{"controlServiceRef":{"name":"kubernetes","namespace":"default"},"dataPlane":{"url":"https://evil.test"}}}`)
		_, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if !apierrors.IsForbidden(err) {
			t.Errorf("patching status: %v, want forbidden", err)
		}
		got, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if url, _, _ := unstructured.NestedString(got.Object, "status", "dataPlane", "url"); strings.Contains(url, "evil") {
			t.Error("a status smuggled into a write of the object was kept")
		}
		box.waitAnswer(c, "genuine")
	})
	t.Run("labels and annotations of the tenant do not move its placement", func(t *testing.T) {
		c := c.on(t)
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"forged",%q:"forged"},"annotations":{%q:"kube-system"}}}`,
			placement.LabelInstanceUID, placement.LabelCluster, placement.AnnotationInstanceNamespace)
		if _, err := tn.dyn.Resource(runners).Namespace("default").Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
		ns, err := kube.CoreV1().Namespaces().Get(t.Context(), box.id.Namespace(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if ns.Labels[placement.LabelInstanceUID] != string(box.id.UID) {
			t.Errorf("the placement's owner is %q", ns.Labels[placement.LabelInstanceUID])
		}
		box.waitAnswer(c, "genuine")
	})
	t.Run("no odd path reaches anything", func(t *testing.T) { oddPaths(t, box) })
	t.Run("a namespace that is guessed is no workspace and no instance", func(t *testing.T) {
		c := c.on(t)
		for _, path := range []string{
			"/dataplane/clusters/" + tn.path + "/namespaces/" + box.id.Namespace() + "/sandboxrunners/web/log",
			"/dataplane/clusters/" + tn.path + "/namespaces/kube-system/sandboxrunners/web/log",
			"/dataplane/clusters/" + tn.path + "/services/control/log",
			"/dataplane/clusters/" + tn.path + "/secrets/sandbar-control/log",
		} {
			if code, body := c.do(http.MethodGet, path, nil); code < 400 || code >= 500 {
				t.Errorf("%s: code %d: %s", path, code, body)
			}
		}
	})
	t.Run("a runtime instance whose status points elsewhere is refused", func(t *testing.T) { forgedRuntimeStatus(t, box, c) })
}

// oddPaths sends what a URL parser would tidy up, as raw bytes over TLS.
func oddPaths(t *testing.T, box *instance) {
	good := box.base() + "/log"
	segments := strings.Split(strings.TrimPrefix(good, "/"), "/")
	var paths []string
	for i := 2; i < len(segments); i++ { // every addressing segment after /dataplane/clusters/
		for _, bad := range []string{"..", ".", "", "%2e%2e", "%2E%2e", "a%2fb", "a%5cb", "a%00b", "%252e", "a%0ab", "%ff", "a\\b"} {
			s := append([]string(nil), segments...)
			s[i] = bad
			paths = append(paths, "/"+strings.Join(s, "/"))
		}
		s := append(append(append([]string(nil), segments[:i]...), ".."), segments[i:]...)
		paths = append(paths, "/"+strings.Join(s, "/"))
	}
	paths = append(paths,
		box.base()+"/log/../sync", box.base()+"/log/..%2fsync", box.base()+"/log/%2e%2e/restart", box.base()+"/log/..%5crestart",
		box.base()+"/log/%2e%2e%2frestart", "//dataplane/clusters/"+box.tn.path+"/sandboxrunners/web/log",
	)
	for _, path := range paths {
		code, reason := rawGet(t, path, box.tn.token)
		if code < 400 || code >= 500 {
			t.Errorf("GET %s: code %d, want a refusal (%s)", path, code, reason)
		}
	}
}

func rawGet(t *testing.T, path, token string) (int, string) {
	t.Helper()
	host := strings.TrimPrefix(world.URL, "https://")
	config := world.TLS()
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", host, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, host, token)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Status
}

// forgedRuntimeStatus plays a graph that lies, or an operator's mistake: kro is stopped for the
// while, so that the forged status stays, and put back to work afterwards.
func forgedRuntimeStatus(t *testing.T, box *instance, c *caller) {
	dyn := dynamic.NewForConfigOrDie(world.Stack.Runtime())
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	objects := dyn.Resource(runners).Namespace(box.id.Namespace())

	// A Service beside the real one, in the right namespace, that is not the instance's.
	decoy := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "decoy"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "control", Port: 7070, TargetPort: intstr.FromInt32(7070)}},
	}}
	if _, err := kube.CoreV1().Services(box.id.Namespace()).Create(t.Context(), decoy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	resume, err := world.Stack.Pause(t.Context(), "kro")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := resume(); err != nil {
			t.Errorf("resuming kro: %v", err)
		}
	})
	original, err := objects.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, ref := range map[string]string{
		"another namespace":                       `{"name":"kube-dns","namespace":"kube-system"}`,
		"a Service without the owner's UID label": fmt.Sprintf(`{"name":"decoy","namespace":%q}`, box.id.Namespace()),
	} {
		patch := []byte(`{"status":{"controlServiceRef":` + ref + `}}`)
		if _, err := objects.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, "a reference to "+name+" is refused", func() error {
			code, body := c.do(http.MethodGet, box.base()+"/log", nil)
			if code < 400 || strings.Contains(body, "kube-dns") || strings.Contains(body, "kube-system") {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
	}
	secret := []byte(`{"status":{"controlSecretRef":{"name":"sandbar-control","namespace":"kube-system"},"controlServiceRef":` + mustJSON(t, original.Object["status"].(map[string]any)["controlServiceRef"]) + `}}`)
	if _, err := objects.Patch(t.Context(), "web", types.MergePatchType, secret, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "a reference to a Secret elsewhere is refused", func() error {
		if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code < 400 {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	restore := []byte(`{"status":` + mustJSON(t, original.Object["status"]) + `}`)
	if _, err := objects.Patch(t.Context(), "web", types.MergePatchType, restore, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the true references serve again", func() error {
		if code, body := c.do(http.MethodGet, box.base()+"/log", nil); code != http.StatusOK {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
}
