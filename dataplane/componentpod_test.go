// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/dataplane/upstream"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/keptlog"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// eachComponent gives the kind the verbs of components that only the tenant knows.
func eachComponent(s *setup) {
	of := func(subresource string) sandbarv1alpha1.Endpoint {
		return sandbarv1alpha1.Endpoint{PodsOf: contract.PodsOfComponent, PodSubresource: subresource, Methods: []string{"GET"}, Upgrade: true}
	}
	log := of(contract.PodLog)
	log.Upgrade, log.Stream = false, true
	s.template.Spec.DataPlane.EachComponent = &sandbarv1alpha1.Component{Endpoints: map[string]sandbarv1alpha1.Endpoint{
		"log": log, "exec": of(contract.PodExec), "port-forward": of(contract.PodPortForward), "proxy": of(contract.PodProxy),
	}}
}

// aPodOf is a Pod of a component that is so many minutes old.
func aPodOf(component, name string, minutes int, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := fixture.Pod(demoID, name, "127.0.0.1", 80)
	pod.Labels[placement.LabelComponent] = component
	pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Duration(minutes) * time.Minute))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func unready(pod *corev1.Pod) { pod.Status.Conditions = nil }

func serviceOf(component string) *corev1.Service {
	service := &corev1.Service{ObjectMeta: fixture.Meta(demoID, component)}
	service.Labels[placement.LabelComponent] = component
	return service
}

func TestTheVerbsOfAComponentLeadToOneOfItsPods(t *testing.T) {
	leaving := func(pod *corev1.Pod) {
		now := metav1.Now()
		pod.DeletionTimestamp, pod.Finalizers = &now, []string{"kept/here"}
	}
	failed := func(pod *corev1.Pod) { unready(pod); pod.Status.Phase = corev1.PodFailed }
	pending := func(pod *corev1.Pod) { unready(pod); pod.Status.Phase = corev1.PodPending }
	for name, c := range map[string]struct {
		pods []runtime.Object
		want string
	}{
		"the only one":                     {[]runtime.Object{aPodOf("web", "web-1", 1)}, "web-1"},
		"not that of another component":    {[]runtime.Object{aPodOf("db", "db-1", 9), aPodOf("web", "web-1", 1)}, "web-1"},
		"the oldest, as long as it serves": {[]runtime.Object{aPodOf("web", "web-2", 2), aPodOf("web", "web-1", 1), aPodOf("web", "web-3", 3)}, "web-3"},
		"one that is ready before another": {[]runtime.Object{aPodOf("web", "web-2", 2, unready), aPodOf("web", "web-1", 1)}, "web-1"},
		"one that runs before one to come": {[]runtime.Object{aPodOf("web", "web-2", 2, pending), aPodOf("web", "web-1", 1, unready)}, "web-1"},
		"one to come before one that has ended": {
			[]runtime.Object{aPodOf("web", "web-2", 2, failed), aPodOf("web", "web-1", 1, pending)}, "web-1",
		},
		"one that has ended, whose log is there": {[]runtime.Object{aPodOf("web", "web-2", 2, failed)}, "web-2"},
		"none that is on its way out":            {[]runtime.Object{aPodOf("web", "web-2", 2, leaving), aPodOf("web", "web-1", 1)}, "web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			api := &podAPI{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a line\n")) }}
			w := newWorld(t, recorder(), eachComponent, api.serve, func(s *setup) { s.objects = append(c.pods, serviceOf("web")) })
			res, body := w.do("GET", demo+"components/web/log?tail=5", adminToken, nil)
			if res.StatusCode != http.StatusOK || body != "a line\n" {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			want := "/api/v1/namespaces/" + demoID.Namespace() + "/pods/" + c.want + "/log?container=main&tailLines=5"
			if got := askedFor(api.asked.Load()); got != want {
				t.Errorf("asked for\n%s, want\n%s", got, want)
			}
		})
	}
}

func TestAComponentThatHasNoPodSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		path    string
		objects []runtime.Object
		code    int
		reason  string
	}{
		"one that is not there":                     {"components/wbe/log", nil, http.StatusNotFound, refusal.CauseNoComponent},
		"one whose pods are not there yet":          {"components/web/log", []runtime.Object{serviceOf("web")}, http.StatusConflict, refusal.CauseNotReady},
		"a verb that components do not have":        {"components/web/sync", []runtime.Object{serviceOf("web"), aPodOf("web", "web-1", 1)}, http.StatusNotFound, refusal.CauseNoVerb},
		"a verb of the instance's own, and no more": {"log", []runtime.Object{aPodOf("log", "log-1", 1)}, http.StatusOK, ""},
		"a name that the Template has for itself":   {"components/api/log", []runtime.Object{serviceOf("api"), aPodOf("api", "api-1", 1)}, http.StatusNotFound, refusal.CauseNoVerb},
		"a name with a capital letter":              {"components/Web/log", nil, http.StatusBadRequest, refusal.CauseMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, recorder(), eachComponent, func(s *setup) { s.objects = c.objects })
			res, body := w.do("GET", demo+c.path, adminToken, nil)
			if res.StatusCode != c.code {
				t.Fatalf("%d %s, want %d", res.StatusCode, body, c.code)
			}
			if reason := w.lastReason(); c.reason != "" && reason != c.reason {
				t.Errorf("the reason is %q, want %q", reason, c.reason)
			}
		})
	}
}

// A label is not what makes a Pod an instance's: with those of another one, or in another namespace, it is none of its.
func TestALabelAloneMakesNoPodAComponents(t *testing.T) {
	other := placement.ID{Origin: "cluster2", UID: "uid-other"}
	elsewhere := fixture.Pod(other, "web-1", "127.0.0.1", 80)
	elsewhere.Labels[placement.LabelComponent] = "web"
	smuggled := aPodOf("web", "web-2", 9)
	smuggled.Labels[placement.LabelInstanceUID] = string(other.UID)
	onNode := aPodOf("node", "node-1", 9, func(pod *corev1.Pod) { pod.Spec.HostNetwork = true })
	api := &podAPI{}
	w := newWorld(t, recorder(), eachComponent, api.serve, func(s *setup) {
		s.objects = []runtime.Object{elsewhere, smuggled, onNode, serviceOf("web"), serviceOf("node")}
	})
	protocols := "Sec-WebSocket-Protocol: v5.channel.k8s.io, " + upstream.PortForwardProtocol + "\r\n\r\n"
	for path, code := range map[string]int{
		"components/web/exec?command=sh&stdout=true": http.StatusConflict,
		"components/web/port-forward":                http.StatusConflict,
		"components/node/port-forward":               http.StatusBadGateway,
		"components/node/ports/10250/proxy":          http.StatusBadGateway,
	} {
		w.wantRefused(t, api, "GET "+demo+path+" HTTP/1.1\r\n"+handshakeLines+protocols, code, "")
	}
}

// The right to a component's verb is that to the instance's verb of the same name, and a right to another is none.
func TestAComponentsVerbIsAuthorizedOnTheInstance(t *testing.T) {
	const reader = "token-of-a-reader"
	api := &podAPI{answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a line\n")) }}
	w := newWorld(t, recorder(), eachComponent, api.serve, func(s *setup) {
		s.objects = []runtime.Object{aPodOf("web", "web-1", 1), serviceOf("web")}
	})
	w.kcp.grant(reader, "get sandboxrunners", "get sandboxrunners/log")
	res, body := w.do("GET", demo+"components/web/log", reader, nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("log: %d %s", res.StatusCode, body)
	}
	for _, path := range []string{"components/web/ports/80/proxy", "components/nobody/ports/80/proxy"} {
		res, body = w.do("GET", demo+path, reader, nil)
		wantStatus(t, res, body, http.StatusForbidden)
	}
}

func TestTheKeptLogOfAComponentIsItsOwn(t *testing.T) {
	kept := keptlog.Log{At: time.Now(), Containers: []keptlog.Container{
		{Pod: "db-1", Name: "main", Labels: map[string]string{placement.LabelComponent: "db"}, Text: []byte("2026-11-28T10:00:00Z of db\n")},
		{Pod: "web-1", Name: "main", Labels: map[string]string{placement.LabelComponent: "web"}, Text: []byte("2026-11-28T10:00:00Z of web\n")},
	}}
	data, err := kept.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, recorder(), eachComponent, func(s *setup) {
		s.suspended = sandbarv1alpha1.SuspendedByUser
		s.objects = []runtime.Object{serviceOf("web"), &corev1.Secret{ObjectMeta: fixture.Meta(demoID, placement.LogSecret), Data: data}}
	})
	res, body := w.do("GET", demo+"components/web/log", adminToken, nil)
	if res.StatusCode != http.StatusOK || body != "of web\n" {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}

// Clients ask again and again while a component has no pods. The runtime cluster hears of it not once: no status says where they are.
func TestAComponentWithoutPodsCostsTheRuntimeClusterNothing(t *testing.T) {
	w := newWorld(t, recorder(), eachComponent, func(s *setup) { s.objects = []runtime.Object{serviceOf("web")} })
	asked := func() (gets int) {
		for _, action := range w.kros.(*dynamicfake.FakeDynamicClient).Actions() {
			if action.GetVerb() == "get" {
				gets++
			}
		}
		return gets
	}
	before := asked()
	res, body := w.do("GET", demo+"components/web/log", adminToken, nil)
	wantStatus(t, res, body, http.StatusConflict)
	if n := asked() - before; n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}
