// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAnAppThatDoesNotStayUp: the instance says so while it lasts, its preview answers 503, and
// all that a person needs to mend it goes on: log, commands, files. A person who comes anew, to a
// sandbox that was suspended meanwhile, gets in too.
func TestAnAppThatDoesNotStayUp(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	box := tn.create(runners, "SandboxRunner", "web", map[string]any{"projectRef": "e2e", "startCommand": "exec node server.mjs"})
	box.waitReady() // though there is nothing to run yet

	began := time.Now()
	s.write("server.mjs", "console.log('about to fail'); process.exit(7);\n")
	s.must("sync", "web", s.dir)
	box.waitNotReady(t)
	t.Logf("from the sync of a broken program to an instance that is not Ready: %v", time.Since(began).Round(100*time.Millisecond))

	t.Run("its preview answers 503", func(t *testing.T) {
		c := c.on(t)
		eventually(t, "503", func() error {
			if code, body := c.do(http.MethodGet, box.base()+"/proxy/", nil); code != http.StatusServiceUnavailable && code != http.StatusConflict {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
	})
	t.Run("its log, its files and commands are there", func(t *testing.T) {
		if got := s.must("logs", "web", "--tail", "20"); !strings.Contains(got, "about to fail") {
			t.Errorf("the log is %q", got)
		}
		if got := s.must("exec", "web", "--", "sh", "-c", "echo hello"); got != "hello\n" {
			t.Errorf("a command prints %q", got)
		}
		if got := s.must("cp", "web:server.mjs", "-"); !strings.Contains(got, "about to fail") {
			t.Errorf("its program is %q", got)
		}
	})
	t.Run("it can be suspended, resumed and mended by sandbar dev", func(t *testing.T) {
		box.patch(t, map[string]any{"suspended": true})
		eventually(t, "the instance is Suspended", func() error {
			obj, err := box.get()
			if err != nil {
				return err
			}
			if phase, _ := obj.Object["status"].(map[string]any)["phase"].(string); phase != "Suspended" {
				return fmt.Errorf("it is %s", phase)
			}
			return nil
		})
		s.write("server.mjs", "console.log('mended'); setInterval(() => {}, 1000);\n")
		out, notes, stop := s.begin("dev", "web", s.dir, "--create")
		await(t, notes, "is being resumed")
		await(t, out, "mended")
		if code := stop(); code != 130 {
			t.Errorf("dev ended with %d: %s", code, notes)
		}
		box.waitReady()
	})
}

// waitNotReady waits until the instance was Ready and says why it is not any more.
func (i *instance) waitNotReady(t *testing.T) {
	t.Helper()
	eventually(t, i.name+" is not Ready", func() error {
		obj, err := i.get()
		if err != nil {
			return err
		}
		ready := condition(obj, "Ready")
		if ready == nil || ready["status"] == string(metav1.ConditionTrue) || ready["message"] == "" {
			return errors.New("it is Ready")
		}
		t.Logf("the condition says %v: %v", ready["reason"], ready["message"])
		return nil
	})
}
