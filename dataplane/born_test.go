// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// born is a placement that was there before its owner, who is cluster1's default/adopter.
var (
	bornID  = placement.ID{Origin: "provider-cluster", UID: "born-uid"}
	adopter = placement.Owner{Cluster: "cluster1", UID: "uid-adopter"}
)

const adopters = "/dataplane/clusters/root:acme:dev/sandboxrunners/adopter/"

// newBornWorld has a placement without an owner, whose pod answers "born", and an object without a
// placement.
func newBornWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, recorder())
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/logs") {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write([]byte("born"))
	}))
	t.Cleanup(pod.Close)
	w.kcp.addInstance("cluster1", "default", "adopter", adopter.UID)
	w.newPlacement(bornID, placement.BornInstance, pod.Listener.Addr().String())
	w.label(bornID, bornID.Labels("sandbox-runner"), map[string]string{})
	return w
}

// label gives a placement's namespace labels and annotations, and waits until the data plane knows them.
func (w *world) label(id placement.ID, labels, annotations map[string]string) {
	w.t.Helper()
	namespaces := w.runtime.CoreV1().Namespaces()
	ns, err := namespaces.Get(w.t.Context(), id.Namespace(), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	ns.Labels, ns.Annotations = labels, annotations
	ns.ResourceVersion = ""
	if _, err := namespaces.Update(w.t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the data plane knows the labels", func() bool {
		known := locate.Lookup[corev1.Namespace](w.server.cache.Namespaces, id.Namespace())
		return known != nil && len(known.Labels) == len(labels) && known.Labels[placement.LabelOwnerUID] == labels[placement.LabelOwnerUID]
	})
}

// adopt makes an object the owner of a placement.
func (w *world) adopt(id placement.ID, owner placement.Owner, name string) {
	w.t.Helper()
	w.label(id, placement.Placed{ID: id, Owner: owner}.NamespaceLabels("sandbox-runner"), map[string]string{
		placement.AnnotationInstanceNamespace: "default", placement.AnnotationInstanceName: name,
	})
}

func TestAPlacementIsReachedByItsOwnerAlone(t *testing.T) {
	w := newBornWorld(t)
	t.Run("by nobody before it has one", func(t *testing.T) {
		w.kcp.addInstance("provider-cluster", "default", "guess", bornID.UID)
		w.kcp.addInstance("cluster1", "default", placement.BornInstance, "uid-named-like-it")
		for _, path := range []string{
			adopters, "/dataplane/clusters/root:acme:dev/sandboxrunners/" + placement.BornInstance + "/",
			"/dataplane/clusters/provider-cluster/namespaces/default/sandboxrunners/guess/",
		} {
			for _, verb := range []string{"proxy", "log", "status"} {
				if res, body := w.do("GET", path+verb, adminToken, nil); res.StatusCode < 400 || strings.Contains(body, "born") {
					t.Errorf("%s%s: %d %s", path, verb, res.StatusCode, body)
				}
			}
		}
	})
	w.adopt(bornID, adopter, "adopter")
	t.Run("by its owner", func(t *testing.T) {
		if res, body := w.do("GET", adopters+"proxy", adminToken, nil); res.StatusCode != http.StatusOK || body != "born" {
			t.Errorf("got %d %q", res.StatusCode, body)
		}
	})
	t.Run("not by another of its workspace", func(t *testing.T) {
		if res, body := w.do("GET", demo+"proxy", adminToken, nil); res.StatusCode != http.StatusOK || body == "born" {
			t.Errorf("got %d %q", res.StatusCode, body)
		}
	})
	t.Run("not by one that is named like its owner was", func(t *testing.T) {
		w.kcp.addInstance("cluster1", "default", "adopter", "uid-later")
		defer w.kcp.addInstance("cluster1", "default", "adopter", adopter.UID)
		w.server.handler.authorizer.Forget("cluster1", w.server.handler.previews.now())
		res, body := w.do("GET", adopters+"proxy", adminToken, nil)
		wantStatus(t, res, body, http.StatusNotFound)
	})
}

// References of an adopted placement are checked as those of one that was made for its owner (fleet.md, 2-T14).
func TestForgedReferencesInAnAdoptedPlacementAreRefused(t *testing.T) {
	w := newBornWorld(t)
	w.adopt(bornID, adopter, "adopter")
	instances := w.kros.Resource(runners).Namespace(bornID.Namespace())
	for name, namespace := range map[string]string{"of another instance": demoID.Namespace(), "of the system": "kube-system", "of the owner's own hash": adopter.Cold().Namespace()} {
		obj, err := instances.Get(t.Context(), placement.BornInstance, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		obj = obj.DeepCopy()
		forged := map[string]any{"name": "preview", "namespace": namespace}
		if err := unstructured.SetNestedMap(obj.Object, forged, "status", "previewServiceRef"); err != nil {
			t.Fatal(err)
		}
		if _, err := instances.Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a reference into a namespace "+name+" is refused", func() bool {
			res, body := w.do("GET", adopters+"proxy", adminToken, nil)
			return res.StatusCode == http.StatusBadGateway && !strings.Contains(body, "born") && w.lastReason() == refusal.CauseForeignRef
		})
	}
}

// The host of a preview names the placement, and what is sealed for it names the owner.
func TestThePreviewOfAPlacementThatWasThereFirst(t *testing.T) {
	w := newPreviewWorld(t, recorder())
	w.kcp.addInstance("cluster1", "default", "adopter", adopter.UID)
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("born")) }))
	t.Cleanup(pod.Close)
	w.newPlacement(bornID, placement.BornInstance, pod.Listener.Addr().String())
	w.adopt(bornID, adopter, "adopter")

	res, body := w.do(http.MethodPost, adopters+"proxy-url", adminToken, strings.NewReader("{}"))
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("asking for a link: %d %s", res.StatusCode, body)
	}
	var link preview.Response
	if err := json.Unmarshal([]byte(body), &link); err != nil {
		t.Fatal(err)
	}
	host := bornID.Namespace() + "." + previewDomain
	u, err := url.Parse(link.URL)
	if err != nil || u.Host != host {
		t.Fatalf("the link is %s (%v)", link.URL, err)
	}
	res, body = w.do(http.MethodGet, u.RequestURI(), "", nil, onHost(host), navigating)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("entering: %d %s", res.StatusCode, body)
	}
	session := with("Cookie", preview.CookieName+"="+res.Cookies()[0].Value)
	if res, body := w.do(http.MethodGet, "/", "", nil, onHost(host), session); res.StatusCode != http.StatusOK || body != "born" {
		t.Errorf("the page is %d %q", res.StatusCode, body)
	}
	t.Run("is not that of another placement of its owner", func(t *testing.T) {
		cold := adopter.Cold()
		w.label(bornID, bornID.Labels("sandbox-runner"), map[string]string{})
		w.newPlacement(cold, "adopter", pod.Listener.Addr().String())
		if res, body := w.do(http.MethodGet, "/", "", nil, onHost(host), session); res.StatusCode == http.StatusOK {
			t.Errorf("the former host shows %d %q", res.StatusCode, body)
		}
		if res, body := w.do(http.MethodGet, "/", "", nil, onHost(cold.Namespace()+"."+previewDomain), session); res.StatusCode == http.StatusOK {
			t.Errorf("another host takes the session: %d %q", res.StatusCode, body)
		}
	})
}

// Two placements of one owner are what is left of a crash: the controllers remove one, and until then
// nobody can say which one has the owner's data.
func TestAnOwnerOfTwoPlacementsReachesNeither(t *testing.T) {
	w := newBornWorld(t)
	w.adopt(bornID, adopter, "adopter")
	second := placement.ID{Origin: "provider-cluster", UID: "born-second"}
	w.newPlacement(second, placement.BornInstance, "127.0.0.1:9")
	w.adopt(second, adopter, "adopter")
	res, body := w.do("GET", adopters+"proxy", adminToken, nil)
	wantStatus(t, res, body, http.StatusNotFound)
}

// The controllers remove what is left of a crash, and the owner's streams from its other placement go on.
func TestAStreamGoesOnWhenAnotherPlacementOfItsOwnerEnds(t *testing.T) {
	w := newBornWorld(t)
	w.adopt(bornID, adopter, "adopter")
	second := placement.ID{Origin: "provider-cluster", UID: "born-second"}
	l := newLive(w.server.cache.OwnerOf)
	ended := map[placement.ID]int{}
	for _, id := range []placement.ID{bornID, second} {
		_, cancel := context.WithCancelCause(t.Context())
		l.add(&supervisor{h: w.server.handler, id: id, owner: adopter, cancel: func(err error) { ended[id]++; cancel(err) }})
	}
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: second.Namespace(), Labels: placement.Placed{ID: second, Owner: adopter}.NamespaceLabels("sandbox-runner"), Annotations: map[string]string{placement.AnnotationInstanceName: "adopter"}}}
	l.ended(gone)
	if ended[second] != 1 || ended[bornID] != 0 {
		t.Errorf("ended: %v", ended)
	}
}

func TestAStreamEndsWithThePlacementThatWasThereFirst(t *testing.T) {
	for name, end := range map[string]func(*world) error{
		"with its kro instance": func(w *world) error {
			return w.kros.Resource(runners).Namespace(bornID.Namespace()).Delete(t.Context(), placement.BornInstance, metav1.DeleteOptions{})
		},
		"with its namespace": func(w *world) error {
			return w.runtime.CoreV1().Namespaces().Delete(t.Context(), bornID.Namespace(), metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBornWorld(t)
			w.adopt(bornID, adopter, "adopter")
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+adopters+"log", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+adminToken)
			res, err := w.client.Do(req)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", res, err)
			}
			defer res.Body.Close()
			if err := end(w); err != nil {
				t.Fatal(err)
			}
			if _, err := res.Body.Read(make([]byte, 1)); err == nil {
				t.Error("the stream goes on")
			}
		})
	}
}
