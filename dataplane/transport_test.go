// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/upstream"
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
		s.opts.Transport = upstream.APIServer
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

func TestAPodThatRefusesIsSkipped(t *testing.T) {
	pod := httptest.NewServer(recorder())
	defer pod.Close()
	w := newWorld(t, nil, func(s *setup) { s.backendAddress = pod.Listener.Addr().String() })
	w.addDeadPod()
	for range 20 {
		w.server.handler.ways.CloseIdleConnections()
		if res, body := w.do("GET", demo+"proxy", adminToken, nil); res.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", res.StatusCode, body)
		}
	}
}

func TestAutoSaysWhatItChose(t *testing.T) {
	w := newWorld(t, recorder(), func(s *setup) { s.opts.Transport = upstream.Auto })
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
