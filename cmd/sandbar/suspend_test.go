// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandbar-dev/sandbar/client"
)

// suspend and resume change spec.suspended once, wait until the status is that of the change, and are idempotent.
func TestSuspendAndResume(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	obj, patches, reads := suspendable(false), 0, 0
	w.kcp = func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			var patch struct{ Spec struct{ Suspended bool } }
			if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
				t.Error(err)
			}
			patches, reads = patches+1, 0
			was := obj
			obj = suspendable(patch.Spec.Suspended)
			obj["metadata"].(map[string]any)["generation"] = 2
			obj["status"] = was["status"] // until the provider has seen it
		} else if reads++; reads == 2 {
			obj["status"] = suspendable(obj["spec"].(map[string]any)["suspended"].(bool))["status"]
			obj["status"].(map[string]any)["observedGeneration"] = 2
		}
		_ = json.NewEncoder(rw).Encode(obj)
		return true
	}
	for _, c := range []struct {
		verb, says string
		patches    int
	}{
		{"suspend", "web is suspended.\n", 1},
		{"suspend", "web was suspended already.\n", 1},
		{"resume", "web has been resumed, and is Ready.\n", 2},
		{"resume", "web was not suspended, and is Ready.\n", 2},
	} {
		code, _, stderr := w.run(t, c.verb, "web")
		if code != 0 || stderr != c.says || patches != c.patches {
			t.Errorf("%s: exit code %d, %d patches, %q, want %q and %d", c.verb, code, patches, stderr, c.says, c.patches)
		}
	}
}

// The end of the wait was told in the words of the call that it interrupted: "client rate limiter Wait returned an error".
func TestTheEndOfAWaitIsToldInItsOwnWords(t *testing.T) {
	w := newWorld(t)
	var reads atomic.Int32
	w.kcp = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && reads.Add(1) > 2 {
			<-r.Context().Done() // it hangs until the caller leaves
			return true
		}
		obj := suspendable(r.Method == http.MethodPatch || reads.Load() > 1)
		obj["status"] = suspendable(false)["status"]
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(obj)
		return true
	}
	code, _, stderr := w.run(t, "suspend", "web", "--timeout", "1s")
	if code != 1 || !strings.Contains(stderr, "web is still Ready") || !strings.Contains(stderr, "after 1s; --timeout gives it longer") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestUntrust(t *testing.T) {
	w := newWorld(t)
	if code, stdout, _ := w.run(t, "untrust"); code != 0 || stdout != w.url+"\n" {
		t.Fatalf("what is trusted: %d, %q", code, stdout)
	}
	if code, _, stderr := w.run(t, "untrust", w.url+"/"); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if planes, err := client.Trusted(w.trust); err != nil || len(planes) != 0 {
		t.Errorf("still trusted: %v, %v", planes, err)
	}
	if code, _, stderr := w.run(t, "logs", "web"); code != 1 || !strings.Contains(stderr, "sandbar trust") {
		t.Errorf("a call afterwards: %d, %s", code, stderr)
	}
}

func TestAKubeconfigOfTheEnvironmentThatIsNotThereIsNamed(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere/kubeconfig")
	var s target
	if _, _, err := s.workspace(); err == nil || !strings.HasPrefix(err.Error(), "there is no file /nowhere/kubeconfig, which $KUBECONFIG names") {
		t.Errorf("it says: %v", err)
	}
}
