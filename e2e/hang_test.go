// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pause stops a part of the stack without ending it, as a machine does that swaps itself to death:
// its connections stay, and it answers nothing.
func pause(t *testing.T, part string) (resume func()) {
	t.Helper()
	goOn, err := world.Stack.Pause(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume = func() {
		if resumed {
			return
		}
		resumed = true
		if err := goOn(); err != nil {
			t.Errorf("resuming %s: %v", part, err)
		}
	}
	t.Cleanup(resume)
	return resume
}

// soon is how soon an outage must be told: within a minute, and what this machine needs besides.
const soon = 80 * time.Second

// TestAKroThatStopsIsTold: with kro stopped for 45 seconds everything was Ready, and tenants read
// that their resources "are being made" (issue 12, A.5).
func TestAKroThatStopsIsTold(t *testing.T) {
	long(t, "it stops kro until the canary tells")
	breaks(t)
	n := newNote(t)
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	old := tn.createNote(n, "old")
	old.waitReady()
	waitProvider(t, n, "Composing", metav1.ConditionTrue)
	resume := pause(t, "kro")
	began := time.Now()
	waits := tn.createNote(n, "waits")
	said := waitProvider(t, n, "Composing", metav1.ConditionFalse, "NotComposing", "kro has not composed", "see whether kro runs")
	if took := time.Since(began); took > soon {
		t.Errorf("it took %s to tell: %s", took, said)
	}
	waitProvider(t, n, "Ready", metav1.ConditionFalse, "NotComposing")
	eventually(t, "the tenant knows", func() error {
		obj, err := waits.get()
		if err != nil {
			return err
		}
		if c := condition(obj, "Composed"); c == nil || c["reason"] != "ProviderNotComposing" {
			return fmt.Errorf("it says %v", c)
		}
		message := fmt.Sprint(condition(obj, "Ready")["message"])
		if !strings.Contains(message, "the provider has not composed anything since") || !strings.Contains(message, "nothing is to be done") || strings.Contains(message, "kro") {
			return fmt.Errorf("it says %s", message)
		}
		return nil
	})
	if obj, err := old.get(); err != nil || conditionError(obj, "Ready", metav1.ConditionTrue) != nil {
		t.Errorf("what runs is not Ready any more: %v, %v", obj.Object["status"], err)
	}
	text, err := world.Metrics(t.Context())
	if err != nil || !strings.Contains(text, "sandbar_canary_composing 0") {
		t.Errorf("the metric does not say it: %v", err)
	}
	resume()
	waits.waitReady()
	waitProvider(t, n, "Ready", metav1.ConditionTrue)
}

// TestARuntimeAPIThatHangsIsTold: it was invisible, and workers hung with it.
func TestARuntimeAPIThatHangsIsTold(t *testing.T) {
	long(t, "it stops the runtime's API server until it is told")
	breaks(t)
	n := newNote(t)
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	old := tn.createNote(n, "old")
	old.waitReady()
	box := tn.runner("box")
	box.waitReady()
	waitProvider(t, n, "RuntimeReachable", metav1.ConditionTrue)
	c := callAs(t, tn.token)
	c.want(http.StatusOK, "GET", old.base()+"/status", nil)
	resume := pause(t, "kube-apiserver")
	began := time.Now()
	var waiting []*instance
	for i := range 12 { // more than there are workers
		waiting = append(waiting, tn.createNote(n, fmt.Sprintf("waits-%d", i)))
	}
	waitProvider(t, n, "RuntimeReachable", metav1.ConditionFalse, "Unreachable")
	if took := time.Since(began); took > soon {
		t.Errorf("it took %s to tell", took)
	}
	// Once no replica can record use, none serves anybody (ADR 13), and each says so at once. The two
	// limits run side by side: which of them ends first depends on when each last looked.
	eventually(t, "it refuses", func() error {
		asked := time.Now()
		code, body := c.do("GET", old.base()+"/status", nil)
		if took := time.Since(asked); code != http.StatusServiceUnavailable || took > 10*time.Second {
			return fmt.Errorf("code %d after %s: %s", code, took, body)
		}
		return nil
	})
	resume()
	for _, i := range waiting {
		i.waitReady()
	}
	waitProvider(t, n, "Ready", metav1.ConditionTrue)
	eventually(t, "it serves again", func() error {
		if code, body := c.do("GET", old.base()+"/status", nil); code != http.StatusOK {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	old.mustPatch(`{"spec":{"text":"changed"}}`) // the informers follow again
	eventually(t, "the change is seen", func() error {
		obj, err := old.get()
		if err == nil && recordOf(obj).ObservedGeneration != obj.GetGeneration() {
			err = fmt.Errorf("generation %d of %d", recordOf(obj).ObservedGeneration, obj.GetGeneration())
		}
		return err
	})
}

// TestAKcpThatHangsKeepsNobodyWaiting: a request whose caller cannot be asked about is answered
// within its limits, and everything goes on afterwards.
func TestAKcpThatHangsKeepsNobodyWaiting(t *testing.T) {
	long(t, "it stops kcp for requests to run into their limits")
	breaks(t)
	n := newNote(t)
	n.apply()
	n.wait("Ready", metav1.ConditionTrue)
	tn := newTenant(t, "alice")
	old := tn.createNote(n, "old")
	old.waitReady()
	c := callAs(t, tn.token)
	base := old.base()
	resume := pause(t, "kcp")
	for range 3 {
		began := time.Now()
		code, body := c.do("GET", base+"/status", nil)
		if took := time.Since(began); code != http.StatusServiceUnavailable || took > 30*time.Second {
			t.Errorf("code %d after %s: %s", code, took, body)
		}
	}
	resume()
	eventually(t, "it serves again", func() error {
		if code, body := c.do("GET", base+"/status", nil); code != http.StatusOK {
			return fmt.Errorf("code %d: %s", code, body)
		}
		return nil
	})
	fresh := tn.createNote(n, "fresh")
	fresh.waitReady()
}
