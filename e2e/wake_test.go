// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var providers = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "infrastructureproviders"}

// TestWakeOnRequest: whatever comes to a sleeping sandbox wakes it, once, and arrives, once.
func TestWakeOnRequest(t *testing.T) {
	breaks(t)
	tn, c, box := countingBox(t)
	replica := startReplica(t, "replica")
	term := newTerminal(t, tn)
	term.must("trust", world.URL, "--ca-file", world.CAFile)

	t.Run("fifty requests, events, a WebSocket, a log and a command at once, by two replicas", func(t *testing.T) {
		box.sleep(t)
		began := time.Now()
		var all sync.WaitGroup
		took := make([]time.Duration, 50)
		for i := range took {
			all.Go(func() {
				as := &caller{t: t, url: []string{world.URL, replica.URL}[i%2], token: tn.token, client: c.client}
				answer, err := as.send(http.MethodPost, box.base()+"/proxy/count", fmt.Sprintf("request %d", i))
				if want := fmt.Sprintf("200 counted request %d", i); err != nil || answer != want {
					t.Errorf("request %d: %q, %v; want %q", i, answer, err, want)
				}
				took[i] = time.Since(began)
			})
		}
		all.Go(func() {
			if answer, err := c.send(http.MethodGet, box.base()+"/proxy/events", ""); err != nil || answer != "200 data: one\n\ndata: two\n\n" {
				t.Errorf("events: %q, %v", answer, err)
			}
		})
		all.Go(func() {
			if answer, err := c.send(http.MethodGet, box.base()+"/log?tail=1", ""); err != nil || !strings.HasPrefix(answer, "200 ") {
				t.Errorf("the log: %q, %v", answer, err)
			}
		})
		all.Go(func() {
			if code, out, notes := term.run("exec", "web", "--", "echo", "awake"); code != 0 || out != "awake\n" {
				t.Errorf("a command: %d %q %s", code, out, notes)
			}
		})
		echo(t, replica.URL, box, tn.token)
		all.Wait()
		slices.Sort(took)
		t.Logf("50 requests at once: first %v, p50 %v, last %v", took[0].Round(time.Millisecond), took[25].Round(time.Millisecond), took[49].Round(time.Millisecond))
		seen := map[string]int{}
		for line := range strings.Lines(c.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/seen", nil)) {
			seen[strings.TrimSpace(line)]++
		}
		for i := range took {
			if n := seen[fmt.Sprintf("request %d", i)]; n != 1 {
				t.Errorf("request %d arrived %d times", i, n)
			}
		}
		if n := len(box.pods(t)); n != 1 {
			t.Errorf("it has %d pods", n)
		}
	})
	t.Run("a browser sees a page that becomes the app", func(t *testing.T) {
		box.sleep(t)
		// The pod may be there before a browser has looked: nothing starts it while kro stands still.
		resume := pause(t, "kro")
		page := newBrowser(t).open(t, box.previewLink(c.on(t), "/?x=<script>window.evil=1</script>"))
		until(page, "document.title", "This preview is waking up")
		page.screenshot("waking")
		resume()
		until(page, "document.body.textContent.includes('asleep no more')", true)
		page.screenshot("woken")
	})
	t.Run("what its tenant has suspended is not woken", func(t *testing.T) {
		box.patch(t, map[string]any{"suspended": true})
		box.waitSuspended(t, true)
		// The data plane hears of it from its own watches, a moment later.
		eventually(t, "it answers 409", func() error {
			return wantCode(c.on(t), http.StatusConflict, http.MethodGet, box.base()+"/proxy/version")
		})
		status := c.on(t).wantStatus(http.StatusConflict, http.MethodGet, box.base()+"/proxy/version", nil)
		if !strings.Contains(status.Message, "spec.suspended to false") {
			t.Errorf("it was told %q", status.Message)
		}
		page := newBrowser(t).open(t, box.previewLink(c.on(t), "/"))
		until(page, "document.title", "This preview is suspended")
		page.screenshot("suspended")
		box.patch(t, map[string]any{"suspended": false})
		box.waitAnswer(c.on(t), "asleep no more")
	})
}

// TestWhatWaitsForAWake: a request that waits for a sleeping sandbox, while what holds it or the sandbox goes.
func TestWhatWaitsForAWake(t *testing.T) {
	long(t, "it kills the provider and a replica")
	breaks(t)
	tn, c, box := countingBox(t)
	t.Run("a data plane that is killed while a request waits has woken it all the same", func(t *testing.T) {
		replica := startReplica(t, "replica")
		box.sleep(t)
		resume := stopControllers(t)
		lost := make(chan error, 1)
		go func() {
			_, err := (&caller{t: t, url: replica.URL, token: tn.token, client: c.client}).send(http.MethodPost, box.base()+"/proxy/count", "lost")
			lost <- err
		}()
		box.waitUsed(t)
		if err := syscall.Kill(replica.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-lost; err == nil {
			t.Error("the request was answered")
		}
		resume()
		box.waitSuspended(t, false)
		c := callAs(t, tn.token)
		box.waitAnswer(c, "asleep no more")
		if seen := c.want(http.StatusOK, http.MethodGet, box.base()+"/proxy/seen", nil); strings.Contains(seen, "lost") {
			t.Error("the app has heard of the request")
		}
	})
	t.Run("what is deleted while a request waits is gone", func(t *testing.T) {
		replica := startReplica(t, "replica")
		box.sleep(t)
		resume := stopControllers(t)
		answered := make(chan string, 1)
		go func() {
			answer, err := (&caller{t: t, url: replica.URL, token: tn.token, client: callAs(t, "").client}).send(http.MethodPost, box.base()+"/proxy/count", "late")
			answered <- fmt.Sprint(answer, err)
		}()
		box.waitUsed(t)
		box.delete()
		resume()
		if answer := <-answered; !strings.HasPrefix(answer, "404 ") {
			t.Errorf("it was answered %s", answer)
		}
	})
}

// countingBox is a tenant's sandbox that counts what arrives, with its use on record at once.
func countingBox(t *testing.T) (*tenant, *caller, *instance) {
	t.Helper()
	writeUseAtOnce(t)
	tn := newTenant(t, "alice")
	c := callAs(t, tn.token)
	box := tn.runner("web")
	box.waitReady()
	box.deployCounter(c)
	return tn, c, box
}

// stopControllers ends the provider, whose controllers alone wake what a replica holds requests
// for; the returned function starts it again.
func stopControllers(t *testing.T) (resume func()) {
	t.Helper()
	if err := world.Kill(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := world.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// writeUseAtOnce has use written each second, so that a test need not wait a minute for it.
func writeUseAtOnce(t *testing.T) {
	t.Helper()
	client := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(providers)
	set := func(value string) {
		t.Helper()
		body := []byte(`{"spec":{"limits":{"activityIntervalSeconds":` + value + `}}}`)
		if _, err := client.Patch(context.Background(), "default", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	t.Cleanup(func() { set("null") })
}

// deployCounter deploys the sample project with routes that count what arrives.
func (i *instance) deployCounter(c *caller) {
	c.t.Helper()
	files := project(c.t)
	files["message.txt"] = "asleep no more\n"
	files["server.mjs"] = strings.Replace(files["server.mjs"], "const routes = {", `const seen = [];
const routes = {
  '/count': async (req, res) => {
    let body = '';
    for await (const part of req) body += part;
    seen.push(body);
    res.end('counted ' + body);
  },
  '/seen': (req, res) => res.end(seen.join('\n') + '\n'),
  '/events': (req, res) => {
    res.setHeader('content-type', 'text/event-stream');
    res.write('data: one\n\n');
    setTimeout(() => res.end('data: two\n\n'), 100);
  },`, 1)
	c.want(http.StatusOK, http.MethodPost, i.base()+"/sync", syncBody(c.t, files))
	i.waitAnswer(c, "asleep no more")
}

// send is do for other goroutines than the test's; it returns the code and the body.
func (c *caller) send(method, path, body string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 90*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return fmt.Sprintf("%d %s", resp.StatusCode, data), err
}

// age has a Lease say that it was long ago.
func age(t *testing.T, namespace, name, field string) error {
	t.Helper()
	at := time.Now().Add(-time.Hour).UTC().Format(metav1.RFC3339Micro)
	_, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoordinationV1().Leases(namespace).
		Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"`+field+`":"`+at+`"}}`), metav1.PatchOptions{})
	return err
}

// ageUse makes the instance unused for an hour, in which it could have been used.
func (i *instance) ageUse(t *testing.T) error {
	return errors.Join(
		age(t, placement.SystemNamespace, placement.DataPlaneLease, "acquireTime"),
		age(t, i.id.Namespace(), placement.ActivityLease, "renewTime"))
}

// sleep has the instance sleep now, as if nobody had used it for an hour.
func (i *instance) sleep(t *testing.T) {
	t.Helper()
	i.patch(t, map[string]any{"lifecycle": map[string]any{"sleepAfterUnused": "1m"}})
	eventually(t, i.name+" sleeps", func() error {
		// What was used a moment ago may still be written, and wakes it; then it is made old again.
		if awake := i.suspended(t, true); awake != nil {
			return errors.Join(awake, i.ageUse(t))
		}
		if pods := i.pods(t); len(pods) > 0 {
			return fmt.Errorf("there are the pods %v", pods)
		}
		return nil
	})
}

// suspended is nil if the runtime instance is suspended, or if it is not.
func (i *instance) suspended(t *testing.T, want bool) error {
	t.Helper()
	obj, err := dynamic.NewForConfigOrDie(world.Stack.Runtime()).Resource(i.gvr).Namespace(i.id.Namespace()).Get(t.Context(), i.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if is, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended"); is != want {
		return fmt.Errorf("suspended is %v (%v)", is, obj.GetAnnotations())
	}
	return nil
}

func (i *instance) waitSuspended(t *testing.T, want bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is suspended: %v", i.name, want), func() error { return i.suspended(t, want) })
}

// waitUsed waits until the data plane has written that the instance is in use.
func (i *instance) waitUsed(t *testing.T) {
	t.Helper()
	eventually(t, "the use is written", func() error { return i.used(t) })
}

// used is nil if it is written that the instance was used within a minute.
func (i *instance) used(t *testing.T) error {
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	lease, err := kube.CoordinationV1().Leases(i.id.Namespace()).Get(t.Context(), placement.ActivityLease, metav1.GetOptions{})
	if err == nil && time.Since(lease.Spec.RenewTime.Time) > time.Minute {
		err = fmt.Errorf("it was used last at %v", lease.Spec.RenewTime)
	}
	return err
}

// pods are the instance's pods, those that end too.
func (i *instance) pods(t *testing.T) (names []string) {
	t.Helper()
	pods, err := kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Pods(i.id.Namespace()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		names = append(names, pod.Name)
	}
	return names
}
