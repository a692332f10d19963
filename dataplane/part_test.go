// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// partID is the placement of the part that a compound instance named whole has: an instance of the kind Sandbox.
var partID = placement.ID{Origin: "cluster1", UID: "uid-part"}

const whole = "/dataplane/clusters/root:acme:dev/sandboxrunners/whole/"

// compoundKind makes the world's kind one whose instances may have a part, which names the instance that it is of.
func compoundKind(of string) func(*setup) {
	return func(s *setup) {
		eachComponent(s)
		s.template.Spec.Compound = &sandbarv1alpha1.CompoundFields{From: "workloads", Template: "sandbox"}
		s.provider = append(s.provider, sandboxTemplate())
		annotations := map[string]string{placement.AnnotationInstanceNamespace: "default", placement.AnnotationInstanceName: "whole"}
		if of != "" {
			annotations[placement.AnnotationCompoundUID] = of
		}
		pod := fixture.Pod(partID, "web-1", "127.0.0.1", 80)
		pod.Labels[placement.LabelComponent] = "web"
		s.objects = append(s.objects, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: partID.Namespace(), Annotations: annotations,
			Labels: placement.Placed{ID: partID, Owner: placement.Owner{Cluster: partID.Origin, UID: partID.UID}}.NamespaceLabels("sandbox"),
		}})
	}
}

func newCompoundWorld(t *testing.T, of string) (*world, *podAPI) {
	t.Helper()
	api := &podAPI{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a line\n")) }}
	w := newWorld(t, recorder(), compoundKind(of), api.serve)
	w.addWhole()
	return w, api
}

// addWhole adds the compound instance, and the kro instance of its part.
func (w *world) addWhole() {
	w.t.Helper()
	w.kcp.addInstance("cluster1", "default", "whole", "uid-whole")
	part := kroInstance(partID, "whole", map[string]any{"state": "ACTIVE"})
	part.SetKind("Sandbox")
	if _, err := w.kros.Resource(runners.GroupVersion().WithResource("sandboxes")).Namespace(partID.Namespace()).Create(w.t.Context(), part, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func TestComponentsOfACompoundInstanceAreThoseOfItsPart(t *testing.T) {
	api := &podAPI{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a line\n")) }}
	w, audit := audited(t, recorder(), compoundKind("uid-whole"), api.serve)
	w.addWhole()
	eventually(t, "the part is known", func() bool {
		res, _ := w.do("GET", whole+"components/web/log", adminToken, nil)
		return res.StatusCode == http.StatusOK
	})
	if got := askedFor(api.asked.Load()); !strings.HasPrefix(got, "/api/v1/namespaces/"+partID.Namespace()+"/pods/web-1/log") {
		t.Errorf("asked for %s", got)
	}
	for path, code := range map[string]int{"components/db/log": http.StatusNotFound, "log": http.StatusNotFound, "podlog": http.StatusNotFound} {
		res, body := w.do("GET", whole+path, adminToken, nil)
		wantStatus(t, res, body, code)
		if reason := w.lastReason(); reason != refusal.CauseNoComponent {
			t.Errorf("%s: the reason is %q", path, reason)
		}
	}
	// Those who may not get the instance cannot be told from those of another one of its name.
	const blind = "token-of-one-who-may-not-get-it"
	w.kcp.grant(blind, "get sandboxrunners/log")
	res, body := w.do("GET", whole+"components/web/log", blind, nil)
	if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusForbidden {
		t.Errorf("without the right to get the instance: %d %s", res.StatusCode, body)
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	if lines := audit.String(); !strings.Contains(lines, `"uid":"uid-whole"`) || strings.Contains(lines, "uid-part") {
		t.Errorf("the audit log is not about the instance that was asked for:\n%s", lines)
	}
}

// Somebody has made an object of the part's kind under the name of another's instance.
func TestAPartThatIsNotTheInstancesIsNotReached(t *testing.T) {
	for name, of := range map[string]string{"nobody's": "", "another's": "uid-other", "its own, it says": string(partID.UID)} {
		t.Run(name, func(t *testing.T) {
			w, api := newCompoundWorld(t, of)
			eventually(t, "the part is known", func() bool {
				k := w.server.kinds.Find(wholeRoute())
				return k != nil && k.Part != nil && k.Part.Instances.Get(partID.Namespace(), "whole") != nil
			})
			res, body := w.do("GET", whole+"components/web/log", adminToken, nil)
			wantStatus(t, res, body, http.StatusNotFound)
			if api.asked.Load() != nil {
				t.Error("its pod was asked")
			}
		})
	}
}

// The look at a stream finds the part again, and asks kcp about the whole.
func TestAStreamOfAComponentLastsAsLongAsTheRightToTheWhole(t *testing.T) {
	const viewer = "token-of-a-viewer"
	gone := make(chan struct{})
	api := &podAPI{answer: func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a line\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}}
	w := newWorld(t, recorder(), compoundKind("uid-whole"), api.serve)
	w.addWhole()
	w.kcp.grant(viewer, "get sandboxrunners", "get sandboxrunners/log")
	eventually(t, "the part is known", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+whole+"components/web/log?follow=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+viewer)
		res, err := w.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.StatusCode == http.StatusOK
	})
	asked := w.kcp.reviews.Load()
	w.server.handler.live.recheck("cluster1", "", time.Now())
	eventually(t, "kcp is asked again", func() bool { return w.kcp.reviews.Load() > asked })
	select {
	case <-gone:
		t.Fatal("a look has ended the stream")
	case <-time.After(200 * time.Millisecond):
	}
	w.kcp.grant(viewer)
	w.server.handler.live.recheck("cluster1", "", time.Now())
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the stream goes on without the right")
	}
}

func wholeRoute() locate.Route {
	return locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}
}

// A link is for the instance that was named, and what its session opens is the part's.
func TestAComponentOfACompoundInstanceHasAPreview(t *testing.T) {
	w := newPreviewWorld(t, recorder(), compoundKind("uid-whole"))
	w.addWhole()
	_, port, err := net.SplitHostPort(portOf(w))
	if err != nil {
		t.Fatal(err)
	}
	var answer preview.Response
	eventually(t, "there is a link", func() bool {
		res, body := w.do(http.MethodPost, whole+"components/web/ports/"+port+"/proxy-url", adminToken, strings.NewReader(`{"path":"/some/page"}`))
		return res.StatusCode == http.StatusCreated && json.Unmarshal([]byte(body), &answer) == nil
	})
	link, err := url.Parse(answer.URL)
	if err != nil || !strings.HasPrefix(link.Host, "web--"+port+"-") {
		t.Fatalf("the link leads to %s (%v)", answer.URL, err)
	}
	res, body := w.do(http.MethodGet, link.RequestURI(), "", nil, onHost(link.Host), navigating)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Fatalf("entering: %d %s", res.StatusCode, body)
	}
	session := res.Cookies()[0].Value
	res, body = w.do(http.MethodGet, "/some/page", "", nil, onHost(link.Host), navigating, with("Cookie", preview.CookieName+"="+session))
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "/some/page") {
		t.Errorf("the page is %d %s", res.StatusCode, body)
	}
}
