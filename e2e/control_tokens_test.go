// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// TestAControlTokenChangesUnderUse: while a sandbox is followed, synced and has commands run in it without a
// pause, its control Secret is deleted, and rotated by a new key, and the key before it is taken away. No
// request fails, whether the data plane has known the sandbox for long or has just been started.
func TestAControlTokenChangesUnderUse(t *testing.T) {
	breaks(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	c := callAs(t, tn.token)
	box.deploy(c, "in use")
	before := box.controlSecret(t)
	use := startUse(t, box, c, steadyUse)
	if err := controlSecrets(box).Delete(t.Context(), placement.ControlSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	use.more(t, "its deletion")
	eventually(t, "the Secret is made again with the same token", func() error { return sameToken(before, box.controlSecret(t)) })
	name := addControlKey(t)
	box.waitControlKey(t, name)
	use.more(t, "the rotation")
	box.waitKeys(t, c, 2) // the kubelet has brought both to the pod
	keepControlKey(t, name)
	use.more(t, "the former key is gone")
	freshReplica(t, box, use.kinds, "the former key is gone")
	use.stop(t)
}

// TestAControlTokenChangesUnderEveryUse: while a sandbox is also restarted again and again, its control Secret is
// edited as well, and each step is tried through data planes that have just been started; a provider that is
// killed in the middle goes on.
func TestAControlTokenChangesUnderEveryUse(t *testing.T) {
	long(t, "it starts twenty replicas, and restarts an app nine times")
	breaks(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	c := callAs(t, tn.token)
	box.deploy(c, "in use")
	secrets := controlSecrets(box)
	before := box.controlSecret(t)
	if before.Annotations[placement.AnnotationControlKey] == "" {
		t.Fatalf("the token is not derived from a key: %v", before.Annotations)
	}
	use := startUse(t, box, c, append(steadyUse, "restart"))
	lines := box.follow(t.Context(), c)
	settled := func(what string) {
		t.Helper()
		use.more(t, what)
		freshReplica(t, box, use.kinds, what)
		mark := "after-" + strings.ReplaceAll(what, " ", "-") + randomHex(3)
		eventually(t, "the app, which is started again and again, logs", func() error {
			if code, body := c.do(http.MethodGet, box.base()+"/proxy/log?text="+mark, nil); code != http.StatusOK {
				return fmt.Errorf("code %d: %s", code, body)
			}
			return nil
		})
		waitLine(t, lines, mark)
	}
	settled("nothing")

	if err := secrets.Delete(t.Context(), placement.ControlSecret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	settled("its deletion")
	eventually(t, "the Secret is made again with the same token", func() error { return sameToken(before, box.controlSecret(t)) })

	edit := []byte(`{"data":{"token":"` + "c29tZWJvZHktaGFzLXR5cGVkLXRoaXM=" + `"}}`)
	if _, err := secrets.Patch(t.Context(), placement.ControlSecret, types.MergePatchType, edit, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	settled("an edit")
	eventually(t, "the edit is undone", func() error { return sameToken(before, box.controlSecret(t)) })

	name := addControlKey(t)
	settled("a new key")
	box.waitControlKey(t, name)
	settled("the rotation")
	box.waitKeys(t, c, 2) // the kubelet has brought both to the pod
	settled("the pod has heard of it")
	keepControlKey(t, name)
	settled("the former key is gone")
	box.waitKeys(t, c, 1)
	settled("the pod has heard of that too")
	use.stop(t)

	t.Run("a provider that is killed goes on with the rotation", func(t *testing.T) {
		name := addControlKey(t)
		if err := world.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := world.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		fresh := callAs(t, tn.token)
		use := startUse(t, box, fresh, append(steadyUse, "restart"))
		box.waitControlKey(t, name)
		use.more(t, "the provider is back")
		use.stop(t)
		metrics, err := world.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(metrics, `sandbar_control_tokens{key="`+name+`"}`) {
			t.Error("the metrics do not tell how far the rotation is")
		}
	})
	t.Run("no pod has got the token itself", func(t *testing.T) {
		metrics, err := world.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(metrics, `sandbar_dataplane_control_requests_total{auth="token"} 0`) {
			t.Error("the data plane has sent the token, although all pods take proofs")
		}
	})
}

func sameToken(a, b *corev1.Secret) error {
	if !bytes.Equal(a.Data[placement.ControlTokenKey], b.Data[placement.ControlTokenKey]) {
		return errors.New("it has another token")
	}
	return nil
}

// controlSecret reads the Secret, which may be away for a moment.
func (i *instance) controlSecret(t *testing.T) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	eventually(t, "the control Secret is there", func() (err error) {
		secret, err = controlSecrets(i).Get(t.Context(), placement.ControlSecret, metav1.GetOptions{})
		return err
	})
	return secret
}

func controlSecrets(i *instance) typedcorev1.SecretInterface {
	return kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Secrets(i.id.Namespace())
}

// waitControlKey waits until the placement's token is derived from a key.
func (i *instance) waitControlKey(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the placement has the token of the new key", func() error {
		if now := i.controlSecret(t).Annotations[placement.AnnotationControlKey]; now != name {
			return fmt.Errorf("it has that of %q", now)
		}
		return nil
	})
}

// addControlKey does what docs/operating.md tells operators to do, and returns the key's name.
func addControlKey(t *testing.T) string {
	t.Helper()
	name, key := time.Now().UTC().Format("20060102T150405Z"), make([]byte, 32)
	_, _ = rand.Read(key)
	patchControlKeys(t, map[string]any{name: key})
	return name
}

// keepControlKey takes all other keys away.
func keepControlKey(t *testing.T, name string) {
	t.Helper()
	secret, err := controlKeys().Get(t.Context(), placement.ControlKeysSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]any{}
	for other := range secret.Data {
		if other != name {
			gone[other] = nil
		}
	}
	patchControlKeys(t, gone)
}

func controlKeys() typedcorev1.SecretInterface {
	return kubernetes.NewForConfigOrDie(world.Stack.Runtime()).CoreV1().Secrets(placement.SystemNamespace)
}

func patchControlKeys(t *testing.T, entries map[string]any) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"data": entries})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := controlKeys().Patch(t.Context(), placement.ControlKeysSecret, types.MergePatchType, data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitKeys waits until the runner's files hold the Secret's token, and so many in all. The number alone says
// nothing where the keys have a former one from the beginning, which a test that was ended leaves.
func (i *instance) waitKeys(t *testing.T, c *caller, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the pod's files hold %d tokens, the Secret's first", want), func() error {
		out, err := i.exec(t.Context(), c, world.URL, "cat /sandbar/control/token; echo; cat /sandbar/control/previous 2>/dev/null; echo")
		if err != nil {
			return err
		}
		held := strings.Fields(out)
		if len(held) != want || held[0] != string(i.controlSecret(t).Data[placement.ControlTokenKey]) {
			return fmt.Errorf("they hold %d, and perhaps others", len(held))
		}
		return nil
	})
}

// exec runs a shell command in the sandbox.
func (i *instance) exec(ctx context.Context, c *caller, base, script string) (string, error) {
	u, err := url.Parse(base + i.base() + "/exec")
	if err != nil {
		return "", err
	}
	u.RawQuery = url.Values{"command": {"sh", "-c", script}}.Encode()
	config := asClientGo(c.token)
	config.Host = base
	executor, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}); err != nil {
		return "", fmt.Errorf("exec: %w: %s", err, errs.String())
	}
	return out.String(), nil
}

// use is a caller who never pauses.
type use struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	kinds  []string

	mu     sync.Mutex
	failed []string
	done   map[string]int
}

// steadyUse are control verbs, with and without a body, streams and upgrades. A restart is one more: the app
// needs seconds for each.
var steadyUse = []string{"sync", "files", "env", "log", "exec"}

func startUse(t *testing.T, box *instance, c *caller, kinds []string) *use {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	u := &use{cancel: cancel, kinds: kinds, done: map[string]int{}}
	for _, kind := range kinds {
		u.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				err := box.useOnce(ctx, c, world.URL, kind, n)
				if ctx.Err() != nil {
					return
				}
				u.note(kind, err)
				pause := 50 * time.Millisecond // a caller, not a load test
				if kind == "restart" {
					pause = 3 * time.Second // so that the app comes up in between
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); u.wg.Wait() })
	return u
}

func (u *use) note(kind string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done[kind]++
	if err != nil {
		u.failed = append(u.failed, fmt.Sprintf("%s %s: %v", time.Now().Format(time.TimeOnly), kind, err))
	}
}

// more waits until each kind of request was made a few times more, and fails if one has failed.
func (u *use) more(t *testing.T, after string) {
	t.Helper()
	u.mu.Lock()
	want := map[string]int{}
	for _, kind := range u.kinds {
		want[kind] = u.done[kind] + 3
	}
	u.mu.Unlock()
	eventually(t, "requests of all kinds after "+after, func() error {
		u.mu.Lock()
		defer u.mu.Unlock()
		if len(u.failed) > 0 {
			return nil
		}
		for kind, n := range want {
			if u.done[kind] < n {
				return fmt.Errorf("%s was used %d times", kind, u.done[kind])
			}
		}
		return nil
	})
	u.check(t, after)
}

func (u *use) check(t *testing.T, after string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.failed) > 0 {
		t.Fatalf("after %s %d requests failed: %s", after, len(u.failed), strings.Join(u.failed[:min(5, len(u.failed))], "; "))
	}
}

func (u *use) stop(t *testing.T) {
	t.Helper()
	u.cancel()
	u.wg.Wait()
	u.check(t, "all")
	u.mu.Lock()
	defer u.mu.Unlock()
	t.Logf("requests without a failure: %v", u.done)
}

// useOnce makes one request of a kind.
func (i *instance) useOnce(ctx context.Context, c *caller, base, kind string, n int) error {
	method, path, body := http.MethodGet, kind, ""
	switch kind {
	case "exec":
		want := fmt.Sprintf("run %d\n", n)
		got, err := i.exec(ctx, c, base, "echo run "+strconv.Itoa(n))
		if err == nil && got != want {
			err = fmt.Errorf("it said %q", got)
		}
		return err
	case "sync":
		method, body = http.MethodPost, fmt.Sprintf(`{"files":[{"path":"used/%d","content":"%s"}],"restart":"never"}`, n%10, strings.Repeat("x", 1<<uint(n%16)))
	case "restart":
		method = http.MethodPost
	case "log":
		path = "log?tail=1"
	}
	req, err := http.NewRequestWithContext(ctx, method, base+i.base()+"/"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("code %d: %s", resp.StatusCode, data)
	}
	return err
}

// freshReplica uses the sandbox through data planes that have just begun and know of nothing before.
func freshReplica(t *testing.T, box *instance, kinds []string, after string) {
	t.Helper()
	for _, transport := range []string{"direct", "apiserver"} {
		replica, err := world.StartReplica(t.Context(), "--transport", transport)
		if err != nil {
			t.Fatal(err)
		}
		c := callAs(t, box.tn.token)
		for _, kind := range slices.Backward(kinds) {
			if err := box.useOnce(t.Context(), c, replica.URL, kind, 0); err != nil {
				t.Errorf("after %s, a data plane that was just started, by %s: %s: %v", after, transport, kind, err)
			}
		}
		if err := replica.Stop(); err != nil {
			t.Errorf("stopping the replica: %v", err)
		}
	}
}
