// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTenantJourney is promise 1: a tenant binds the API, creates a SandboxRunner, pushes
// files, watches the log, restarts the process, opens the preview and a WebSocket, with its
// own token only.
func TestTenantJourney(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)

	created := time.Now()
	box := tn.runner("web")
	ready := box.waitReady()
	t.Logf("create to Ready: %v (seen by polling every 100 ms)", time.Since(created).Round(time.Millisecond))
	if phase, _ := ready.Object["status"].(map[string]any)["phase"].(string); phase != "Ready" {
		t.Errorf("phase %q, want Ready", phase)
	}

	t.Run("files that are synced appear in the running app", func(t *testing.T) {
		c := c.on(t)
		box.deploy(c, "first edit")
		box.deploy(c, "second edit")
	})
	t.Run("a log line written after the follow began arrives", func(t *testing.T) {
		c := c.on(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lines := box.follow(ctx, c)
		mark := "mark-" + randomHex(4)
		c.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/log?text="+mark, nil)
		waitLine(t, lines, mark)
	})
	t.Run("restart gives a new process", func(t *testing.T) {
		c := c.on(t)
		before := box.version(c)
		c.want(http.StatusOK, http.MethodPost, box.base()+"/restart", nil)
		eventually(t, "another process answers", func() error {
			code, body := c.do(http.MethodGet, box.base()+"/proxy/version", nil)
			if code != http.StatusOK || pidOf(t, body) == before.PID {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
	})
	t.Run("a WebSocket echoes through proxy", func(t *testing.T) { echo(t, world.URL, box, tn.token) })
	t.Run("all path forms reach the same instance", func(t *testing.T) {
		c := c.on(t)
		want := box.version(c).PID
		for _, base := range []string{
			"/dataplane/clusters/" + tn.path + "/sandboxrunners/web",
			"/dataplane/clusters/" + strings.ReplaceAll(tn.path, ":", "%3A") + "/sandboxrunners/web",
			"/dataplane/clusters/" + tn.cluster + "/sandboxrunners/web",
			"/dataplane/clusters/" + tn.cluster + "/namespaces/default/sandboxrunners/web",
			"/clusters/" + tn.path + "/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/web",
			"/services/sandbar/clusters/" + tn.cluster + "/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/web",
		} {
			body := c.want(http.StatusOK, http.MethodGet, base+"/proxy/version", nil)
			if got := pidOf(t, body); got != want {
				t.Errorf("%s reached process %d, want %d", base, got, want)
			}
		}
	})
	t.Run("the URL in the status is the instance's base", func(t *testing.T) {
		c := c.on(t)
		obj, err := box.get()
		if err != nil {
			t.Fatal(err)
		}
		dp, _ := obj.Object["status"].(map[string]any)["dataPlane"].(map[string]any)
		url, _ := dp["url"].(string)
		path, ok := strings.CutPrefix(url, world.URL)
		if !ok {
			t.Fatalf("status.dataPlane.url is %q, want it below %s", url, world.URL)
		}
		c.want(http.StatusOK, http.MethodGet, path+"/proxy/version", nil)
	})
	t.Run("the verb status answers the instance's own status", func(t *testing.T) {
		c := c.on(t)
		body := c.want(http.StatusOK, http.MethodGet, box.base()+"/status", nil)
		if !strings.Contains(body, "\"phase\"") || strings.Contains(body, "controlSecretRef") {
			t.Errorf("status: %s", body)
		}
	})
	// The data plane has the paths of an API server so that kcp can serve them itself one day
	// (003-4 of the requirements, https://github.com/kcp-dev/kcp/issues/3717). When this fails, that day has come.
	t.Run("kcp itself does not serve the verbs", func(t *testing.T) {
		objects := tn.dyn.Resource(box.gvr).Namespace("default")
		if _, err := objects.Get(t.Context(), box.name, metav1.GetOptions{}, "status"); err != nil {
			t.Errorf("status, which is kcp's own: %v", err)
		}
		for _, verb := range []string{"log", "proxy", "exec"} {
			if _, err := objects.Get(t.Context(), box.name, metav1.GetOptions{}, verb); !apierrors.IsNotFound(err) {
				t.Errorf("%s: got %v, want 404", verb, err)
			}
		}
	})
	t.Run("the catalogue lists the kinds and never a graph", func(t *testing.T) {
		c := c.on(t)
		body := c.want(http.StatusOK, http.MethodGet, "/dataplane/clusters/"+tn.path+"/templates", nil)
		for _, want := range []string{"SandboxRunner", "Redis", "restart"} {
			if !strings.Contains(body, want) {
				t.Errorf("the catalogue lacks %s: %s", want, body)
			}
		}
		if strings.Contains(body, "securityContext") || strings.Contains(body, "\"graph\"") {
			t.Errorf("the catalogue shows a graph: %s", body)
		}
	})
}

// TestRedisJourney shows that the contract is general: a kind that is no sandbox at all, with
// a log verb through the pod's own log and a status verb.
func TestRedisJourney(t *testing.T) {
	long(t, "TestRedisVerbs has its promise")
	calm(t)
	tn := newTenant(t, "bob")
	c := callAs(t, tn.token)
	db := tn.create(redis, "Redis", "cache", map[string]any{})
	db.waitReady()
	if body := c.want(http.StatusOK, http.MethodGet, db.base()+"/log", nil); !strings.Contains(body, "Ready to accept connections") {
		t.Errorf("the log of redis: %s", body)
	}
	c.want(http.StatusOK, http.MethodGet, db.base()+"/status", nil)
	c.wantStatus(http.StatusNotFound, http.MethodPost, db.base()+"/restart", nil)
}

type version struct {
	Message string `json:"message"`
	PID     int    `json:"pid"`
}

func (i *instance) version(c *caller) version {
	c.t.Helper()
	var v version
	body := c.want(http.StatusOK, http.MethodGet, i.base()+"/proxy/version", nil)
	if err := json.Unmarshal([]byte(body), &v); err != nil || v.PID == 0 {
		c.t.Fatalf("/version: %v: %s", err, body)
	}
	return v
}

func pidOf(t *testing.T, body string) int {
	t.Helper()
	var v version
	if err := json.Unmarshal([]byte(body), &v); err != nil || v.PID == 0 {
		t.Fatalf("/version: %v: %s", err, body)
	}
	return v.PID
}

// echo opens a WebSocket through proxy and sends one message each way.
func echo(t *testing.T, base string, box *instance, token string) {
	t.Helper()
	conn := openSocket(t, base, box, token)
	want := "hello " + randomHex(4)
	if err := conn.WriteMessage(websocket.TextMessage, []byte(want)); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		_, got, err := conn.ReadMessage()
		if err != nil {
			t.Fatalf("reading the echo: %v", err)
		}
		if strings.Contains(string(got), want) {
			return
		}
	}
}
