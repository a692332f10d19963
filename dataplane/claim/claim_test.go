// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func parse(t *testing.T, body string) *Request {
	t.Helper()
	r, refused := Parse([]byte(body), http.Header{})
	if refused != nil {
		t.Fatalf("%s: %s", body, refused.Message)
	}
	return r
}

func TestHowLongARequestWaits(t *testing.T) {
	for body, want := range map[string]time.Duration{
		"": DefaultWait, " \n": DefaultWait, "{}": DefaultWait, `{"wait":"0s"}`: 0, `{"wait":"1500ms"}`: 1500 * time.Millisecond, `{"wait":"5m"}`: MaxWait,
	} {
		if got := parse(t, body).Patience; got != want {
			t.Errorf("%q waits for %s, want %s", body, got, want)
		}
	}
}

// What is the same request has the same digest, and nothing else has.
func TestWhatIsTheSameRequest(t *testing.T) {
	const whole = `{"generateName":"a-","labels":{"x":"1","y":"2"},"annotations":{"z":"3"},"lifecycle":{"sleepAfterUnused":"1h"},"prewarm":"None"}`
	first := parse(t, whole).digest("shell")
	for _, same := range []string{
		`{"prewarm":"None","labels":{"y":"2","x":"1"},"generateName":"a-","annotations":{"z":"3"},"lifecycle":{"sleepAfterUnused":"1h"},"wait":"0s"}`,
		`{"generateName":"a-","labels":{"x":"1","y":"2"},"annotations":{"z":"3","sandbar.dev/idempotency-key":"k"},"lifecycle":{"sleepAfterUnused":"1h"},"prewarm":"None"}`,
	} {
		if parse(t, same).digest("shell") != first {
			t.Errorf("another digest: %s", same)
		}
	}
	seen := map[string]string{first: whole, parse(t, whole).digest("other"): "another template"}
	for _, other := range []string{
		`{}`, `{"name":"a-"}`, `{"generateName":"a-"}`, `{"labels":{"x":"1"}}`, `{"annotations":{"x":"1"}}`, `{"lifecycle":{"sleepAfterUnused":"1h"}}`, `{"lifecycle":{}}`, `{"prewarm":"None"}`,
	} {
		digest := parse(t, other).digest("shell")
		if seen[digest] != "" && other != `{"lifecycle":{}}` { // which says nothing
			t.Errorf("%s has the digest of %s", other, seen[digest])
		}
		seen[digest] = other
	}
	if len(seen) < 9 {
		t.Errorf("%d digests", len(seen))
	}
}

func TestTheNameOfAKeyIsAlwaysTheSameAndAName(t *testing.T) {
	for _, template := range []string{"shell", strings.Repeat("t", 253), strings.Repeat("t", maxBase-1) + ".x"} {
		r := parse(t, `{"annotations":{"sandbar.dev/idempotency-key":"k"}}`)
		name := r.nameFor(template, "")
		if name != r.nameFor(template, "") || name == r.nameFor(template, "uid") {
			t.Errorf("%s, %s", name, r.nameFor(template, "uid"))
		}
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		other := parse(t, `{"annotations":{"sandbar.dev/idempotency-key":"l"}}`)
		if other.nameFor(template, "") == name {
			t.Error("two keys have one name")
		}
	}
	if name := parse(t, `{"name":"mine"}`).nameFor("shell", "uid"); name != "mine" {
		t.Errorf("a request with a name gets %s", name)
	}
}

func TestASandboxSaysWhichKeyMadeIt(t *testing.T) {
	r := parse(t, `{"labels":{"a":"b"},"annotations":{"sandbar.dev/idempotency-key":"k"}}`)
	raw, _ := json.Marshal(r.object(Kind{"sandbar.dev/v1alpha1", "Sandbox", "template"}, "default", "shell", "shell-x"))
	want := fmt.Sprintf(`{"apiVersion":"sandbar.dev/v1alpha1","kind":"Sandbox","metadata":{"annotations":{"sandbar.dev/claim-request":%q,"sandbar.dev/idempotency-key":"k"},`+
		`"labels":{"a":"b","sandbar.dev/idempotency-key-hash":%q},"name":"shell-x","namespace":"default"},"spec":{"template":{"templateRef":{"kind":"SandboxTemplate","name":"shell"}}}}`,
		r.digest("shell"), idempotency.Hash("k"))
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	if len(r.Labels) != 1 || len(r.Annotations) != 0 {
		t.Errorf("the request has changed: %+v", r)
	}
}

func TestASandboxHasTheVariablesOfItsRequest(t *testing.T) {
	r := parse(t, `{"env":[{"name":"A","value":"1"}],"envFrom":[{"secretRef":{"name":"keys"}}]}`)
	raw, _ := json.Marshal(r.object(Kind{"sandbar.dev/v1alpha1", "Sandbox", "template"}, "default", "shell", "x")["spec"])
	if want := `{"env":[{"name":"A","value":"1"}],"envFrom":[{"secretRef":{"name":"keys"}}],"template":{"templateRef":{"kind":"SandboxTemplate","name":"shell"}}}`; string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	if other := parse(t, `{"env":[{"name":"A","value":"2"}],"envFrom":[{"secretRef":{"name":"keys"}}]}`); other.digest("shell") == r.digest("shell") {
		t.Error("another value is the same request")
	}
}

func TestTheTableOfLimitsHasTheNumbersOfClaims(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Claiming Sandboxes", true,
		limitstable.Limit{Name: "the body of the verb `claim`", Number: limitstable.Bytes(MaxBody), Says: []string{fmt.Sprintf("larger than %d bytes", MaxBody)}},
		limitstable.Limit{Name: "labels, and annotations, of a request", Number: limitstable.Count(MaxPairs), Says: []string{fmt.Sprintf("at most %d", MaxPairs)}},
		limitstable.Limit{
			Name: "how long a request waits; without `wait`", Number: limitstable.Duration(MaxWait) + "; " + limitstable.Duration(DefaultWait),
			Says: []string{"from 0s to " + MaxWait.String()},
		},
		limitstable.Limit{Name: "an idempotency key, of a SandboxClaim too", Number: fmt.Sprintf("%d bytes", idempotency.MaxKey), Says: []string{"1 to 255"}},
		limitstable.Limit{Name: "for how long a key finds what was made with it", Number: limitstable.Duration(idempotency.Window)},
		limitstable.Limit{Name: "after how long to ask again in a workspace that is full", Number: "5 s"},
		limitstable.Limit{Name: "what is passed on of kcp's words about a Sandbox that it refuses", Number: "2 KiB"},
	)
}

// Any body that a caller sends is refused with words, or makes a Sandbox that has nothing of sandbar.dev but the key's.
func FuzzParse(f *testing.F) {
	for _, body := range []string{
		"", "{}", `{"name":"a"}`, `{"generateName":"a-","wait":"1m"}`, `{"labels":{"sandbar.dev/claim":"x"}}`, `{"annotations":{"sandbar.dev/idempotency-key":"k"}}`,
		`{"lifecycle":{"a":[1,null,{"b":1e9}]}}`, `{"labels":{"a":1}}`, `[]`, `null`, `{"Name":"a"}`, "{}{}", `{"wait":"9999999999999h"}`,
	} {
		f.Add(body, "")
		f.Add(body, "key")
	}
	f.Fuzz(func(t *testing.T, body, key string) {
		header := http.Header{}
		if key != "" {
			header.Set(KeyHeader, key)
		}
		r, refused := Parse([]byte(body), header)
		if refused != nil {
			if refused.Message == "" || refused.Code != 400 && refused.Code != 422 {
				t.Errorf("%d %q", refused.Code, refused.Message)
			}
			return
		}
		if r.Patience < 0 || r.Patience > MaxWait || r.Key != "" && idempotency.Check(r.Key) != nil {
			t.Errorf("%+v", r)
		}
		metadata, _ := r.object(Kind{"v1", "K", "t"}, "default", "shell", "x")["metadata"].(map[string]any)
		ours := map[string]bool{placement.LabelIdempotencyKey: true, placement.AnnotationIdempotencyKey: true, placement.AnnotationClaimRequest: true}
		for _, field := range []string{"labels", "annotations"} {
			pairs, _ := metadata[field].(map[string]string)
			for name := range pairs {
				if strings.HasPrefix(name, "sandbar.dev/") && !ours[name] {
					t.Errorf("it has %s", name)
				}
			}
		}
		if again := *r; again.digest("shell") != r.digest("shell") {
			t.Error("two digests")
		}
	})
}
