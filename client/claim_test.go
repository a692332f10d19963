// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// claims is a data plane that answers claims with codes, one after the other, and remembers what it was sent.
type claims struct {
	codes []int
	// retryAfter is in each refusal, if it is not zero.
	retryAfter int

	mu     sync.Mutex
	bodies []string
	keys   []string
}

func (c *claims) answer(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	code := c.codes[min(len(c.bodies), len(c.codes)-1)]
	c.bodies, c.keys = append(c.bodies, string(body)), append(c.keys, r.Header.Get("Idempotency-Key"))
	c.mu.Unlock()
	switch {
	case code == 0:
		panic(http.ErrAbortHandler) // the connection breaks
	case code >= 400:
		if c.retryAfter > 0 {
			rw.Header().Set("Retry-After", strconv.Itoa(c.retryAfter))
		}
		rw.WriteHeader(code)
		_ = json.NewEncoder(rw).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Message: "refused"})
		return
	}
	rw.WriteHeader(code)
	message := ""
	if code == http.StatusAccepted {
		message = "it goes on starting"
	}
	fmt.Fprintf(rw, `{"kind":"Sandbox","metadata":{"name":"shell-x","namespace":"default","uid":"u"},"message":%q,
		"status":{"phase":"Ready","start":{"type":"Warm","set":{"name":"shells"}},"dataPlane":{"url":"https://dp/x"}}}`, message)
}

func (c *claims) claim(t *testing.T, opts client.ClaimOptions) (*client.Claimed, *world, error) {
	t.Helper()
	w := newWorld(t, c.answer)
	plane, err := client.New(w.config(), client.DataPlane{URL: w.plane.URL, CABundle: certificateOf(w.plane)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Close)
	claimed, err := plane.Claim(t.Context(), w.plane.URL, "root:me", "default", "shell", opts)
	return claimed, w, err
}

// A program that passes on a name that somebody else chose must not send its credential to another verb by it.
func TestNoNameLeadsAClaimElsewhere(t *testing.T) {
	w := newWorld(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was called", r.URL.Path) })
	c, err := client.New(w.config(), client.DataPlane{URL: w.plane.URL, CABundle: certificateOf(w.plane)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, name := range []string{"", ".", "..", "../sandboxes/victim/proxy", "a/b", "%2e%2e", "a%2Fb"} {
		for _, at := range [][3]string{{name, "default", "shell"}, {"root:me", name, "shell"}, {"root:me", "default", name}} {
			if _, err := c.Claim(t.Context(), w.plane.URL, at[0], at[1], at[2], client.ClaimOptions{}); !errors.Is(err, client.ErrSegment) {
				t.Errorf("a claim of %q ends with %v", at, err)
			}
		}
		if _, err := c.Templates(t.Context(), w.plane.URL, name); !errors.Is(err, client.ErrSegment) {
			t.Errorf("the Templates of %q end with %v", name, err)
		}
	}
}

func TestAClaimIsOneCall(t *testing.T) {
	c := &claims{codes: []int{http.StatusCreated}}
	claimed, w, err := c.claim(t, client.ClaimOptions{
		GenerateName: "job-", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, Prewarm: "Require", Resize: "Keep", Wait: new(time.Minute), Key: "k",
		Env: []sandbarv1alpha1.SandboxEnv{{Name: "A", Value: "1"}}, EnvFrom: []sandbarv1alpha1.SandboxEnvFrom{{SecretRef: sandbarv1alpha1.SandboxSecretRef{Name: "keys"}}},
		Lifecycle: &sandbarv1alpha1.Lifecycle{SleepAfterUnused: &metav1.Duration{Duration: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Claimed{
		Name: "shell-x", Namespace: "default", UID: "u", Ready: true, Created: true, URL: "https://dp/x", Phase: "Ready",
		Start: &sandbarv1alpha1.InstanceStart{Type: "Warm", Set: &sandbarv1alpha1.InstanceStartSet{Name: "shells"}},
	}
	if diff := cmp.Diff(want, claimed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"POST /dataplane/clusters/root:me/namespaces/default/sandboxtemplates/shell/claim Bearer " + token}, w.requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	body := `{"generateName":"job-","labels":{"a":"b"},"annotations":{"c":"d"},"lifecycle":{"sleepAfterUnused":"1h0m0s"},"prewarm":"Require","resize":"Keep","wait":"1m0s",` +
		`"env":[{"name":"A","value":"1"}],"envFrom":[{"secretRef":{"name":"keys"}}]}`
	if diff := cmp.Diff([]string{body}, c.bodies); diff != "" || c.keys[0] != "k" {
		t.Errorf("with the key %q (-want +got):\n%s", c.keys[0], diff)
	}
}

func TestWhatAClaimAnswers(t *testing.T) {
	for code, want := range map[int]client.Claimed{
		http.StatusOK: {Ready: true}, http.StatusCreated: {Ready: true, Created: true}, http.StatusAccepted: {Message: "it goes on starting"},
	} {
		claimed, _, err := (&claims{codes: []int{code}}).claim(t, client.ClaimOptions{})
		if err != nil || claimed.Ready != want.Ready || claimed.Created != want.Created || claimed.Message != want.Message {
			t.Errorf("%d is %+v, %v", code, claimed, err)
		}
	}
}

// A claim that was lost may have made a Sandbox: it is sent again with the same key, and never without one.
func TestAClaimIsRepeatedWithItsKey(t *testing.T) {
	for name, test := range map[string]struct {
		codes      []int
		retryAfter int
		tries      int
		code       int // of the error
	}{
		"a connection that breaks":      {[]int{0, http.StatusOK}, 0, 2, 0},
		"too many":                      {[]int{429, 503, http.StatusCreated}, 0, 3, 0},
		"a creation without an answer":  {[]int{504, http.StatusOK}, 0, 2, 0},
		"one that is being deleted":     {[]int{409, http.StatusCreated}, 1, 2, 0},
		"a name that is taken":          {[]int{409}, 0, 1, 409},
		"a key that was used":           {[]int{422}, 0, 1, 422},
		"no right":                      {[]int{403}, 0, 1, 403},
		"a data plane that stays away":  {[]int{503}, 0, 5, 503},
		"a body that the client cannot": {[]int{413}, 0, 1, 413},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &claims{codes: test.codes, retryAfter: test.retryAfter}
			_, _, err := c.claim(t, client.ClaimOptions{})
			var answer *client.CallError
			if test.code == 0 && err != nil || test.code != 0 && (!errors.As(err, &answer) || answer.Code != test.code) {
				t.Errorf("it ended with %v", err)
			}
			if len(c.keys) != test.tries {
				t.Fatalf("it was sent %d times, want %d", len(c.keys), test.tries)
			}
			for _, key := range c.keys {
				if len(key) < 20 || key != c.keys[0] {
					t.Errorf("its keys are %q", c.keys)
				}
			}
		})
	}
}

func TestNoClaimGoesToADataPlaneThatIsNotTrusted(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	c, err := client.New(w.config())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var untrusted *client.UntrustedError
	if _, err := c.Claim(t.Context(), w.plane.URL, "root:me", "default", "shell", client.ClaimOptions{}); !errors.As(err, &untrusted) {
		t.Errorf("it ended with %v", err)
	}
}
