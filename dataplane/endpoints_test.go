// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/dataplane/fixture"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// addDeadPod gives the demo's preview a second pod, at another address of this machine on the same
// port, where nobody listens.
func (w *world) addDeadPod() {
	w.t.Helper()
	slice := slices.Collect(w.server.cache.EndpointSlices(demoID.Namespace(), "preview"))[0].DeepCopy()
	pod := fixture.Pod(demoID, "dead", "127.0.0.9", *slice.Ports[0].Port)
	slice.Name, slice.Endpoints = "dead", []discoveryv1.Endpoint{fixture.Endpoint(pod, nil)}
	if err := w.server.cache.Pods.GetIndexer().Add(pod); err != nil {
		w.t.Fatal(err)
	}
	if err := w.server.cache.Slices.GetIndexer().Add(slice); err != nil {
		w.t.Fatal(err)
	}
}

// What a caller and the operator hear of it, and that not even a connection is made.
func TestAForgedEndpointGetsNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var taken atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			conn.Close()
		}
	}()
	for name, change := range map[string]func(*discoveryv1.Endpoint){
		"without a pod":            func(e *discoveryv1.Endpoint) { e.TargetRef = nil },
		"of another tenant's pod":  func(e *discoveryv1.Endpoint) { e.TargetRef.Namespace = "sb-another" },
		"at an address of its own": func(e *discoveryv1.Endpoint) { e.Addresses = []string{"127.0.0.1"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, func(s *setup) { s.backendAddress = "127.0.0.8:1" })
			port := int32(l.Addr().(*net.TCPAddr).Port)
			for _, service := range []string{"control", "preview"} {
				slice := slices.Collect(w.server.cache.EndpointSlices(demoID.Namespace(), service))[0].DeepCopy()
				slice.Ports[0].Port = &port
				change(&slice.Endpoints[0])
				if err := w.server.cache.Slices.GetIndexer().Add(slice); err != nil {
					t.Fatal(err)
				}
			}
			for _, verb := range []string{"sync", "proxy"} {
				res, body := w.do("POST", demo+verb, adminToken, nil)
				wantStatus(t, res, body, http.StatusBadGateway)
				if reason := w.lastReason(); reason != refusal.CauseForeignRef {
					t.Errorf("%s: the access line says %s", verb, reason)
				}
			}
			if n := taken.Load(); n != 0 {
				t.Errorf("%d connections were made", n)
			}
		})
	}
}

// The informers of pods and of slices do not see a new pod at the same moment, and an instance is Ready
// by then.
func TestAPodThatIsKnownAMomentLaterIsWaitedFor(t *testing.T) {
	w := newWorld(t, recorder())
	pods := w.runtime.CoreV1().Pods(demoID.Namespace())
	pod, err := pods.Get(t.Context(), "pod-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), "pod-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone from the cache", func() bool {
		return locate.Lookup[corev1.Pod](w.server.cache.Pods, demoID.Namespace()+"/pod-0") == nil
	})
	got := w.later("POST", demo+"sync", "x")
	eventually(t, "the request waits", func() bool { return w.server.handler.wakes.Changes.Waiting() == 1 })
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-got; got.code != http.StatusOK {
		t.Errorf("got %d %s", got.code, got.body)
	}
	if n := w.server.handler.wakes.Changes.Waiting(); n != 0 {
		t.Errorf("%d requests wait still", n)
	}
}

func TestAPodThatIsNotThereIsNotReady(t *testing.T) {
	w := newWorld(t, recorder())
	if err := w.runtime.CoreV1().Pods(demoID.Namespace()).Delete(t.Context(), "pod-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod is gone from the cache", func() bool {
		return locate.Lookup[corev1.Pod](w.server.cache.Pods, demoID.Namespace()+"/pod-0") == nil
	})
	res, body := w.do("POST", demo+"sync", adminToken, nil)
	wantStatus(t, res, body, http.StatusConflict)
}

func FuzzReadHost(f *testing.F) {
	f.Add(fixture.ToPreview.Host())
	f.Add(fixture.ToControl.Host())
	f.Add("service/p/s/n/u/x/proof")
	f.Add("pod/80/a.b/n/u//")
	f.Add("service//s/n/u//")
	f.Fuzz(func(t *testing.T, host string) {
		if d, ok := locate.ReadHost(host); ok && d.Host() != host {
			t.Errorf("%q is read as %v, which is %q", host, d, d.Host())
		}
	})
}
