// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
)

func TestThePodsLogIsReadThroughTheAPIServer(t *testing.T) {
	var asked *url.URL
	var header http.Header
	apiServer := func(code int, body string) func(*setup) {
		return func(s *setup) {
			s.apiServer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked, header = r.URL, r.Header
				w.Header().Set("Warning", `299 - "pods/pod-0 has something to say"`)
				w.WriteHeader(code)
				_, _ = io.WriteString(w, body)
			})
		}
	}
	logPath := "/api/v1/namespaces/" + demoID.Namespace() + "/pods/pod-0/log"
	t.Run("with the provider's credential and what the query may say", func(t *testing.T) {
		w := newWorld(t, recorder(), apiServer(200, "a line\n"))
		for query, want := range map[string]string{
			"":                       "container=main",
			"tail=5&since=60":        "container=main&sinceSeconds=60&tailLines=5",
			"timestamps=1&follow=0":  "container=main&follow=false&timestamps=true",
			"container=side&since=0": "container=side",
			"stream=all":             "container=main",
			"previous=true&insecureSkipTLSVerifyBackend=true&limitBytes=1": "container=main",
		} {
			res, body := w.do("GET", demo+"podlog?"+query, adminToken, nil, func(r *http.Request) { r.Header.Set("Impersonate-User", "admin") })
			if res.StatusCode != http.StatusOK || body != "a line\n" {
				t.Fatalf("%s: got %d %s", query, res.StatusCode, body)
			}
			if res.Header.Get("Warning") != "" {
				t.Errorf("the API server's own header came through: %v", res.Header)
			}
			if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Content-Security-Policy") != "sandbox" {
				t.Errorf("a browser may make a page of the log: %v", res.Header)
			}
			if asked.Path != logPath || asked.RawQuery != want {
				t.Errorf("%s: asked for %s, want query %s", query, asked, want)
			}
			if header.Get("Authorization") != "Bearer runtime-credential" || header.Get("Impersonate-User") != "" {
				t.Errorf("%s: asked with %v", query, header)
			}
		}
	})
	for path, code := range map[string]int{
		"podlog?tail=-1": 400, "podlog?tail=x": 400, "podlog?since=1h": 400, "podlog?follow=perhaps": 400, "podlog?stream=stderr": 400, "podlog/x": 400,
		"podlog?container=other": 400, "podlog?container=../../secrets": 400,
	} {
		t.Run(path+" is refused", func(t *testing.T) {
			w := newWorld(t, recorder(), apiServer(200, ""))
			res, body := w.do("GET", demo+path, adminToken, nil)
			wantStatus(t, res, body, code)
		})
	}
	for code, want := range map[int]int{400: 409, 404: 409, 403: 502, 500: 502} {
		t.Run(fmt.Sprintf("the API server's %d is %d and tells nothing of the cluster", code, want), func(t *testing.T) {
			w := newWorld(t, recorder(), apiServer(code, "pods \"pod-0\" in sb-namespace"))
			res, body := w.do("GET", demo+"podlog", adminToken, nil)
			wantStatus(t, res, body, want)
			if strings.Contains(body, "sb-") || strings.Contains(body, "pod-0") {
				t.Errorf("got %s", body)
			}
		})
	}
}

func TestThroughTheAPIServersPodProxy(t *testing.T) {
	status, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 503,
		Reason: metav1.StatusReasonServiceUnavailable, Message: "error trying to reach service: dial tcp 10.97.0.7:3000",
	})
	if err != nil {
		t.Fatal(err)
	}
	var asked *http.Request
	w := newWorld(t, nil, func(s *setup) {
		s.opts.Transport = TransportAPIServer
		s.backendAddress = "127.0.0.1:9"
		s.apiServer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r
			w.Header().Set("Audit-Id", "x")
			switch {
			case strings.HasSuffix(r.URL.Path, "/down"):
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = w.Write(status)
			case strings.HasSuffix(r.URL.Path, "/own-error"):
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, `{"mine":true}`)
			case strings.HasSuffix(r.URL.Path, "/redirect"):
				http.Redirect(w, r, strings.TrimSuffix(r.URL.Path, "redirect")+"login", http.StatusFound)
			}
		})
	})
	base := "/api/v1/namespaces/" + demoID.Namespace() + "/pods/pod-0:9/proxy"
	res, body := w.do("GET", demo+"proxy/a/b?x=1", adminToken, nil)
	if res.StatusCode != http.StatusOK || asked.RequestURI != base+"/a/b?x=1" || asked.Header.Get("Authorization") != "Bearer runtime-credential" {
		t.Errorf("got %d %s; asked for %s with %v", res.StatusCode, body, asked.RequestURI, asked.Header)
	}
	if res.Header.Get("Audit-Id") != "" {
		t.Error("the API server's own header came through")
	}
	res, body = w.do("GET", demo+"proxy/down", adminToken, nil)
	wantStatus(t, res, body, http.StatusBadGateway)
	if strings.Contains(body, "10.97") {
		t.Errorf("the answer tells an address: %s", body)
	}
	if res, body := w.do("GET", demo+"proxy/own-error", adminToken, nil); res.StatusCode != http.StatusTeapot || body != `{"mine":true}` {
		t.Errorf("the app's own error became %d %s", res.StatusCode, body)
	}
	if res, _ := w.do("GET", demo+"proxy/redirect", adminToken, nil); res.Header.Get("Location") != demo+"proxy/login" {
		t.Errorf("the redirect leads to %s", res.Header.Get("Location"))
	}
}

func TestAddressesOfAPod(t *testing.T) {
	d := bareDirect(t)
	cache := d.cache
	onNode, pending := placedPod(demoID, "on-node", "10.0.0.2", 80), placedPod(demoID, "pending", "10.0.0.3", 80)
	onNode.Spec.HostNetwork, pending.Status.Phase = true, corev1.PodPending
	hostile := placedPod(demoID, "hostile", "10.0.0.4", 80)
	for _, ip := range []string{"127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00:ec2::254", "nonsense"} {
		hostile.Status.PodIPs = append(hostile.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	for _, pod := range []*corev1.Pod{placedPod(demoID, "pod-0", "10.0.0.1", 80), onNode, pending, hostile} {
		if err := cache.Pods.GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	own := demoID.Namespace()
	for of, want := range map[locate.Destination][]string{
		{Namespace: own, UID: demoID.UID, Pod: "pod-0", Port: "3000"}:         {"10.0.0.1:3000"},
		{Namespace: own, UID: demoID.UID, Pod: "hostile", Port: "3000"}:       {"10.0.0.4:3000"},
		{Namespace: own, UID: demoID.UID, Pod: "on-node", Port: "3000"}:       nil,
		{Namespace: own, UID: demoID.UID, Pod: "pending", Port: "3000"}:       nil,
		{Namespace: "sb-other", UID: demoID.UID, Pod: "pod-0", Port: "3000"}:  nil,
		{Namespace: own, UID: "another-instance", Pod: "pod-0", Port: "3000"}: nil,
		{Namespace: own, UID: demoID.UID, Pod: "pod-0", Port: "http"}:         nil,
		{Namespace: own, UID: demoID.UID, Service: "pod-0", Port: "3000"}:     nil,
	} {
		if diff := cmp.Diff(want, addressesOf(d, of)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", of, diff)
		}
	}
}

func TestAPodThatRefusesIsSkipped(t *testing.T) {
	pod := httptest.NewServer(recorder())
	defer pod.Close()
	w := newWorld(t, nil, func(s *setup) { s.backendAddress = pod.Listener.Addr().String() })
	w.addDeadPod()
	for range 20 {
		w.server.direct.CloseIdleConnections()
		if res, body := w.do("GET", demo+"proxy", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", res.StatusCode, body)
		}
	}
}

func TestAutoChoosesByTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChooser(TransportAuto, &direct{}, &apiServer{}, record.NewMetrics("test"), slog.New(slog.DiscardHandler))
		asDirect, asAPIServer := TransportDirect, TransportAPIServer
		if got := c.conclude(errNoEndpoint); got != asDirect || c.chosen != "" {
			t.Error("an endpoint that is not there decided")
		}
		if got := c.conclude(context.DeadlineExceeded); got != asAPIServer {
			t.Error("a pod that cannot be reached did not lead to the API server")
		}
		if got := c.pick(t.Context(), &locate.Target{At: &locate.Place{}}); got != asAPIServer {
			t.Error("it was tried again at once")
		}
		if got := c.conclude(fmt.Errorf("dialling: %w", syscall.ECONNREFUSED)); got != asDirect || !c.settled {
			t.Error("a refusal, which proves a route, was taken for none")
		}
		if got := c.conclude(errors.New("timeout")); got != asDirect {
			t.Error("a later failure unsettled what is settled")
		}
	})
}

func TestAutoSaysWhatItChose(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Transport = TransportAuto })
	w.received("GET", demo+"proxy", "")
	if !strings.Contains(w.logs.String(), `"msg":"transport to pods chosen","mode":"direct","reason":"pod_reachable"`) {
		t.Errorf("the log does not say: %s", w.logs.String())
	}
	rec := httptest.NewRecorder()
	w.server.metrics.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if !strings.Contains(rec.Body.String(), `sandbar_dataplane_transport{mode="direct",reason="pod_reachable"} 1`) {
		t.Error("the metric does not say")
	}
}

func TestNoAddressOfThePlatformIsAPods(t *testing.T) {
	for address, want := range map[string]bool{
		"10.1.2.3": true, "192.168.1.1": true, "100.64.0.1": true, "fd12::1": true, "8.8.8.8": true,
		"127.0.0.1": false, "127.9.9.9": false, "169.254.169.254": false, "0.0.0.0": false, "224.0.0.251": false,
		"255.255.255.255": false, "::1": false, "::": false, "fe80::1": false, "ff02::1": false, "fd00:ec2::254": false,
	} {
		if got := isPodAddress(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// A proxy that the environment names would get control tokens, and what tenants send.
func TestNoProxyOfTheEnvironmentIsUsedTowardsPods(t *testing.T) {
	a, err := newAPIServer(&rest.Config{Host: "https://runtime.example"})
	if err != nil {
		t.Fatal(err)
	}
	if a.pool.Proxy != nil {
		t.Error("the transport asks for a proxy although the configuration names none")
	}
}
