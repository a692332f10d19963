// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestProviderIsKilled is promise 6: kill -9 of the provider while five instances are being
// created and two streams are open. Sandboxes keep running, all five become Ready after the
// restart, and nothing is there twice.
func TestProviderIsKilled(t *testing.T) {
	breaks(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	box := tn.runner("running")
	box.waitReady()
	box.deploy(c, "alive")
	before := box.version(c).PID

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := box.follow(ctx, c)
	socket := openSocket(t, world.URL, box, tn.token)

	var boxes []*instance
	for i := range 5 {
		boxes = append(boxes, tn.runner(fmt.Sprintf("made-%d", i)))
	}
	if err := world.Kill(); err != nil {
		t.Fatal(err)
	}
	for range lines { // the stream ends, it does not hang
	}
	if _, _, err := socket.ReadMessage(); err == nil {
		t.Error("the WebSocket survived its provider")
	}
	if err := world.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range boxes {
		b.waitReady()
	}
	fresh := callAs(t, tn.token)
	box.waitAnswer(fresh, "alive")
	if after := box.version(fresh).PID; after != before {
		t.Errorf("the sandbox's process changed from %d to %d while the provider was away", before, after)
	}

	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	seen := map[string]int{}
	namespaces, err := kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: placement.LabelCluster + "=" + tn.cluster})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces.Items {
		seen[ns.Annotations[placement.AnnotationInstanceName]]++
		pods, err := kube.CoreV1().Pods(ns.Name).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err != nil {
			t.Fatal(err)
		}
		if len(pods.Items) != 1 {
			t.Errorf("%s has %d running pods, want 1", ns.Annotations[placement.AnnotationInstanceName], len(pods.Items))
		}
	}
	if len(seen) != len(boxes)+1 {
		t.Errorf("%d placements, want %d: %v", len(seen), len(boxes)+1, seen)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d placements", name, n)
		}
	}
}

// TestDrain: a provider that is told to stop lets requests in flight finish.
func TestDrain(t *testing.T) {
	breaks(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	box := tn.runner("web")
	box.waitReady()
	box.deploy(c, "drain")
	type answer struct {
		code int
		body string
	}
	answers := make(chan answer, 1)
	began := make(chan struct{})
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, world.URL+box.base()+"/proxy/slow?ms=3000", nil)
		req.Header.Set("Authorization", "Bearer "+tn.token)
		resp, err := c.client.Do(req)
		close(began)
		if err != nil {
			answers <- answer{0, err.Error()}
			return
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		answers <- answer{resp.StatusCode, fmt.Sprint(string(data), err)}
	}()
	<-began // /slow sends its header at once and its end later
	if err := world.Terminate(); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got.code != http.StatusOK || !strings.Contains(got.body, "done") {
		t.Errorf("the request in flight got %d: %s", got.code, got.body)
	}
	if err := world.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	box.waitAnswer(callAs(t, tn.token), "drain")
}

func openSocket(t *testing.T, base string, box *instance, token string) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: world.TLS(), HandshakeTimeout: 90 * time.Second}
	conn, resp, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(base, "https")+box.base()+"/proxy/echo",
		http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		t.Fatalf("opening a WebSocket: %v (%v)", err, resp)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
