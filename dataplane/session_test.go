// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const devSession = "/dataplane/clusters/root:acme:dev/devsessions/try/"

// addSession has kcp know a DevSession.
func (k *fakeKCP) addSession(cluster, name, uid string) {
	k.addInstance(cluster, "default", name, "")
	k.set(func() {
		of := k.instances[cluster+"/default/sandboxrunners/"+name]
		delete(k.instances, cluster+"/default/sandboxrunners/"+name)
		of.UID = types.UID(uid)
		k.instances[cluster+"/default/"+builtin.Of(builtin.DevSession).Resource+"/"+name] = of
	})
}

// withSession makes the world's kind one of copies, and its demo one of which a component is developed: the control Service of the
// session has its UID, and leads to the runner at an address.
func withSession(address, uid string, change ...func(*corev1.Service)) func(*setup) {
	return func(s *setup) {
		eachComponent(s)
		s.template.Spec.Clones = &sandbarv1alpha1.CloneFields{From: "components", To: "render", Claims: "claims"}
		s.objects = append(s.objects, sessionObjects(address, uid, change...)...)
	}
}

func sessionObjects(address, uid string, change ...func(*corev1.Service)) []runtime.Object {
	host, text, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseInt(text, 10, 32)
	port, name, protocol := int32(number), "control", corev1.ProtocolTCP
	pod := fixture.Pod(demoID, "try-1", host, port)
	pod.Labels[placement.LabelDevelops], pod.Labels[placement.LabelSessionUID] = "web", uid
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Spec.Containers[0].Env = fixture.NamesItsUID()
	service := &corev1.Service{ObjectMeta: fixture.Meta(demoID, "try-dev"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 7070}}}}
	service.Labels[placement.LabelDevelops], service.Labels[placement.LabelSessionUID] = "web", uid
	for _, c := range change {
		c(service)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: fixture.Meta(demoID, "try-dev-1"), AddressType: discoveryv1.AddressTypeIPv4,
		Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints: []discoveryv1.Endpoint{fixture.Endpoint(pod, nil)},
	}
	slice.Labels[discoveryv1.LabelServiceName] = "try-dev"
	return []runtime.Object{pod, service, slice}
}

// sessionKnown waits until the data plane knows the kind.
func (w *world) sessionKnown() {
	w.t.Helper()
	kind := builtin.Of(builtin.DevSession)
	eventually(w.t, "the kind is known", func() bool {
		return w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: kind.Resource}) != nil
	})
}

func TestTheVerbsOfASessionLeadToItsRunner(t *testing.T) {
	for name, c := range map[string]struct{ method, path, want string }{
		"sync":              {"POST", "sync", "POST /sync"},
		"log":               {"GET", "log?follow=true", "GET /logs?follow=true"},
		"files":             {"GET", "files/src/main.js", "GET /files/src/main.js"},
		"environment":       {"POST", "env", "POST /env"},
		"another start":     {"POST", "restart", "POST /restart"},
		"what the app does": {"GET", "process", "GET /status"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newSessionWorld(t, "uid-try")
			got := w.received(c.method, devSession+c.path, "")
			if got.Method+" "+got.URI != c.want {
				t.Errorf("the runner gets %s %s, want %s", got.Method, got.URI, c.want)
			}
		})
	}
}

// newSessionWorld has a session with a UID by kcp, and what its control Service says.
func newSessionWorld(t *testing.T, uid string, change ...func(*corev1.Service)) (*world, *controlServer) {
	t.Helper()
	runner := newControlServer("uid-of-try-1-of-"+string(demoID.UID), recorder(), controlToken)
	listening := httptest.NewServer(runner)
	t.Cleanup(listening.Close)
	w := newWorld(t, recorder(), withSession(listening.Listener.Addr().String(), uid, change...))
	w.kcp.addSession("cluster1", "try", "uid-try")
	w.sessionKnown()
	return w, runner
}

// The attack: the control Service of another's session, or an object that looks like one.
func TestASessionIsFoundByWhatNoTenantCanWrite(t *testing.T) {
	for name, c := range map[string]struct {
		uid    string
		change func(*corev1.Service)
	}{
		"another session's Service":     {uid: "uid-other", change: func(*corev1.Service) {}},
		"a Service of another instance": {uid: "uid-try", change: func(s *corev1.Service) { s.Labels[placement.LabelInstanceUID] = "another" }},
		"one outside of placements":     {uid: "uid-try", change: func(s *corev1.Service) { s.Namespace = "elsewhere" }},
	} {
		t.Run(name, func(t *testing.T) {
			w, runner := newSessionWorld(t, c.uid, c.change)
			if res, body := w.do("GET", devSession+"log", adminToken, nil); res.StatusCode != http.StatusNotFound {
				t.Errorf("%d %s", res.StatusCode, body)
			}
			if n, challenges := runner.count(); n+challenges > 0 {
				t.Errorf("the runner got %d requests", n+challenges)
			}
		})
	}
}

// The same UID in another logical cluster is another object.
func TestASessionOfAnotherWorkspaceIsNotReached(t *testing.T) {
	w, runner := newSessionWorld(t, "uid-try")
	w.kcp.set(func() { w.kcp.clusters["root:beta:dev"], w.kcp.clusters["cluster2"] = "cluster2", "cluster2" })
	w.kcp.bind("cluster2", fakeBinding{path: "root:beta:dev", phase: "Bound", accepted: true})
	w.kcp.addSession("cluster2", "try", "uid-try")
	for cluster, code := range map[string]int{"cluster1": http.StatusOK, "cluster2": http.StatusNotFound} {
		before, _ := runner.count()
		res, body := w.do("GET", "/dataplane/clusters/"+cluster+"/devsessions/try/log", adminToken, nil)
		if after, _ := runner.count(); res.StatusCode != code || after-before != map[bool]int{true: 1}[code == http.StatusOK] {
			t.Errorf("%s: %d %s, and the runner got %d requests", cluster, res.StatusCode, body, after-before)
		}
	}
}

func TestARightToASessionIsOneToItsSubresource(t *testing.T) {
	w, _ := newSessionWorld(t, "uid-try")
	const reader = "token-of-one-who-reads-logs"
	w.kcp.grant(reader, "get devsessions", "get devsessions/log")
	for path, code := range map[string]int{"log": http.StatusOK, "files": http.StatusForbidden, "changes": http.StatusForbidden} {
		if res, body := w.do("GET", devSession+path, reader, nil); res.StatusCode != code {
			t.Errorf("%s: %d %s, want %d", path, res.StatusCode, body, code)
		}
	}
	for path, code := range map[string]int{"renew": http.StatusNotFound, "proxy": http.StatusNotFound, "components/web/log": http.StatusNotFound, "proxy-url": http.StatusNotFound} {
		if res, body := w.do("POST", devSession+path, adminToken, nil); res.StatusCode != code {
			t.Errorf("%s: %d %s, want %d", path, res.StatusCode, body, code)
		}
	}
}

// While the copy of the component has no pods, its verbs lead to those of the session.
func TestThePodOfASessionStandsForItsComponent(t *testing.T) {
	api := &podAPI{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a line\n")) }}
	w := newWorld(t, recorder(), withSession("127.0.0.1:80", "uid-try"), api.serve)
	res, body := w.do("GET", demo+"components/web/log", adminToken, nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	if got := askedFor(api.asked.Load()); !strings.Contains(got, "/pods/try-1/log") {
		t.Errorf("asked for %s", got)
	}
}
