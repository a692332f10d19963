// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestNoTokenAnywhere is promise 4: with the provider logging all that it and its libraries can
// say, the caller's token is in no log, reached no pod, and is in no metric and no error; the
// control token is not sent to the app.
func TestNoTokenAnywhere(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	c := callAs(t, tn.token)
	box.deploy(c, "tokens")

	var said []string // everything that the provider answered
	for _, v := range verbsOfRunner {
		_, body := c.do(v.method, box.base()+v.verb, []byte("{}"))
		said = append(said, body)
	}
	box.waitAnswer(c, "tokens") // one of the verbs was restart
	bad := callAs(t, tn.token+"x")
	for _, v := range verbsOfRunner {
		_, body := bad.do(v.method, box.base()+v.verb, []byte("{}"))
		said = append(said, body)
	}
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	secret, err := kube.CoreV1().Secrets(box.id.Namespace()).Get(t.Context(), placement.ControlSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	control := string(secret.Data[placement.ControlTokenKey])
	if len(control) < 32 {
		t.Fatalf("the control token has %d characters", len(control))
	}

	t.Run("the app sees neither token", func(t *testing.T) {
		c := c.on(t)
		body := c.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/headers", nil)
		var headers map[string]any
		if err := json.Unmarshal([]byte(body), &headers); err != nil || len(headers) == 0 {
			t.Fatalf("/headers: %v: %s", err, body)
		}
		if strings.Contains(body, tn.token) || strings.Contains(body, control) {
			t.Errorf("the app received a token: %s", body)
		}
		for name := range headers {
			if l := strings.ToLower(name); l == "authorization" || strings.HasPrefix(l, "x-remote-") || l == "x-sandbox-control-token" {
				t.Errorf("the app received the header %s", name)
			}
		}
	})
	t.Run("no log, metric or error holds a token", func(t *testing.T) {
		c := c.on(t)
		metrics, err := world.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{"answers": strings.Join(said, "\n"), "metrics": metrics}
		logs, err := readLogs()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(texts, logs)
		texts["the sandbox's log"] = c.want(http.StatusOK, http.MethodGet, box.base()+"/log", nil)
		for where, text := range texts {
			if strings.Contains(text, tn.token) {
				t.Errorf("%s hold the caller's token", where)
			}
			if strings.Contains(text, control) {
				t.Errorf("%s hold the control token", where)
			}
		}
		if !strings.Contains(texts["provider.log"], "GET") {
			t.Error("the provider's log says nothing of requests, so searching it proves nothing")
		}
	})
}

// readLogs returns the logs of all processes of the provider by name.
func readLogs() (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(world.LogDir, "*.log"))
	if err == nil && len(paths) == 0 {
		err = errors.New("the provider has no logs")
	}
	texts := map[string]string{}
	for _, path := range paths {
		data, failed := os.ReadFile(path)
		err = errors.Join(err, failed)
		texts[filepath.Base(path)] = string(data)
	}
	return texts, err
}

// wrongInLogs returns a line for each log that holds a person's token or a panic when all tests have run: most of them
// run after TestNoTokenAnywhere, and a reconciliation that panics is tried again and fails no test.
func wrongInLogs() (wrong []string) {
	logs, err := readLogs()
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	for name, text := range logs {
		for _, user := range []string{"alice", "bob", "carol", "dave"} {
			if strings.Contains(text, world.Stack.Token(user)) {
				wrong = append(wrong, fmt.Sprintf("%s holds %s's token", name, user))
			}
		}
		if lines := local.Panics(text); len(lines) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s tells of %d panics, the first: %.300s", name, len(lines), lines[0]))
		}
	}
	return wrong
}
