// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/claim"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const claimShell = "/dataplane/clusters/root:acme:dev/namespaces/default/sandboxtemplates/shell/claim"

// sandboxTemplate is the operator's Template of the kind Sandbox.
func sandboxTemplate() *sandbarv1alpha1.Template {
	return &sandbarv1alpha1.Template{
		TypeMeta:   metav1.TypeMeta{APIVersion: "sandbar.dev/v1alpha1", Kind: "Template"},
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox"},
		Spec:       sandbarv1alpha1.TemplateSpec{PodTemplate: &sandbarv1alpha1.PodTemplateFields{From: "template", To: "pod"}},
		Status: sandbarv1alpha1.TemplateStatus{
			Kind: "Sandbox", Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxes",
			Conditions: []metav1.Condition{{Type: sandbarv1alpha1.TemplateExported, Status: metav1.ConditionTrue, Reason: "Exported"}},
		},
	}
}

// newClaimWorld is a workspace with the SandboxTemplate shell.
func newClaimWorld(t testing.TB, changes ...func(*setup)) *world {
	t.Helper()
	w := newWorld(t, recorder(), append([]func(*setup){func(s *setup) { s.provider = append(s.provider, sandboxTemplate()) }}, changes...)...)
	w.addShell()
	return w
}

// addShell gives the workspace the SandboxTemplate shell.
func (w *world) addShell() {
	w.t.Helper()
	w.kcp.set(func() {
		w.kcp.instances["cluster1/default/sandboxtemplates/shell"] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "shell", Namespace: "default", UID: "uid-of-shell", Annotations: map[string]string{"kcp.io/cluster": "cluster1"},
		}}
	})
	eventually(w.t, "the data plane knows the kind", func() bool {
		return w.server.kinds.Find(locate.Route{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxes"}) != nil
	})
}

// readyStatus is what the provider reports of a Sandbox that took a member.
func readyStatus(name string) map[string]any {
	return map[string]any{
		"phase": "Ready", "start": map[string]any{"type": "Warm", "set": map[string]any{"name": "shells"}},
		"dataPlane":  map[string]any{"url": "https://dp/" + name},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": nil}},
	}
}

// makesReady has each Sandbox Ready as soon as it is created, until the test ends.
func (w *world) makesReady() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	w.kcp.boxes.mu.Lock()
	if w.kcp.boxes.changed == nil {
		w.kcp.boxes.changed = make(chan struct{})
	}
	w.kcp.boxes.mu.Unlock()
	go func() {
		defer close(stopped)
		for {
			w.kcp.boxes.mu.Lock()
			changed := w.kcp.boxes.changed
			for key, obj := range w.kcp.boxes.objects {
				if obj.Object["status"] == nil {
					obj = obj.DeepCopy()
					obj.Object["status"] = readyStatus(strings.TrimPrefix(key, "default/"))
					w.kcp.boxes.put(obj)
				}
			}
			w.kcp.boxes.mu.Unlock()
			select {
			case <-changed:
			case <-stop:
				return
			}
		}
	}()
	w.t.Cleanup(func() { close(stop); <-stopped })
}

// claimed sends a request and reads the Sandbox of the answer.
func (w *world) claimed(code int, body string, change ...func(*http.Request)) claim.Sandbox {
	w.t.Helper()
	res, answer := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(body), change...)
	var s claim.Sandbox
	if err := json.Unmarshal([]byte(answer), &s); err != nil || res.StatusCode != code {
		w.t.Fatalf("got %d %s, want %d", res.StatusCode, answer, code)
	}
	return s
}

func withKey(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(claim.KeyHeader, key) }
}

func TestAClaimMakesASandboxAsTheCallerAndWaitsForIt(t *testing.T) {
	w := newClaimWorld(t)
	w.makesReady()
	s := w.claimed(http.StatusCreated, `{"labels":{"run":"a"},"annotations":{"note":"b"},"lifecycle":{"sleepAfterUnused":"30m"},"prewarm":"Prefer"}`)
	if !s.Ready() || s.Kind != "Sandbox" || !strings.HasPrefix(s.Metadata.Name, "shell-") || s.Metadata.UID == "" || s.Metadata.ResourceVersion == "" ||
		s.Status.DataPlane.URL != "https://dp/"+s.Metadata.Name || s.Status.Start.Type != "Warm" || s.Status.Start.Set.Name != "shells" || s.Message != "" {
		t.Errorf("%+v", s)
	}
	obj := w.kcp.boxes.objects["default/"+s.Metadata.Name]
	spec, _ := json.Marshal(obj.Object["spec"])
	if want := `{"lifecycle":{"sleepAfterUnused":"30m"},"prewarm":"Prefer","template":{"templateRef":{"kind":"SandboxTemplate","name":"shell"}}}`; string(spec) != want {
		t.Errorf("the spec is %s, want %s", spec, want)
	}
	if obj.GetLabels()["run"] != "a" || obj.GetAnnotations()["note"] != "b" || len(obj.GetLabels())+len(obj.GetAnnotations()) != 2 {
		t.Errorf("%v, %v", obj.GetLabels(), obj.GetAnnotations())
	}
	if !slices.Equal(w.kcp.boxes.tokens, []string{adminToken}) {
		t.Errorf("kcp got the tokens %q", w.kcp.boxes.tokens)
	}
	w.wantMetrics(`sandbar_dataplane_claims_total{answer="ready",start="Warm"} 1`, `sandbar_dataplane_requests_total{code="201",resource="sandboxtemplates",verb="claim"} 1`)
}

func TestAClaimThatIsRefused(t *testing.T) {
	claims := []string{"get sandboxtemplates", "create sandboxtemplates/claim"}
	for name, c := range map[string]struct {
		method, path, body string
		rights             []string
		code               int
		told, reason       string
	}{
		"another method":                  {http.MethodGet, claimShell, "", claims, 405, "it takes POST", "method"},
		"without the right to claim":      {http.MethodPost, claimShell, "", []string{"get sandboxtemplates", "create sandboxes"}, 403, "access denied", "denied"},
		"without the right to create":     {http.MethodPost, claimShell, "", claims, 403, "the right to create sandboxes in namespace default", "denied"},
		"without the right to list":       {http.MethodPost, claimShell, `{"annotations":{"sandbar.dev/idempotency-key":"k"}}`, append(claims, "create sandboxes"), 403, "the right to list sandboxes", "denied"},
		"of a template that is not there": {http.MethodPost, strings.Replace(claimShell, "shell", "none", 1), "", claims, 404, "no SandboxTemplate none in namespace default", "no_instance"},
		"of a template and a path behind": {http.MethodPost, claimShell + "/x", "", claims, 404, "", "no_verb"},
		"of another kind":                 {http.MethodPost, strings.Replace(claimShell, "sandboxtemplates", "sandboxsets", 1), "", []string{"*"}, 404, "", "no_instance"},
		"no JSON":                         {http.MethodPost, claimShell, "name", claims, 400, "one JSON object", "malformed"},
		"two objects":                     {http.MethodPost, claimShell, "{}{}", claims, 400, "one JSON object", "malformed"},
		"a list":                          {http.MethodPost, claimShell, "[]", claims, 422, "the fields name, generateName", "invalid"},
		"an unknown field":                {http.MethodPost, claimShell, `{"pod":{}}`, claims, 422, `unknown field "pod"; the fields are name`, "invalid"},
		"a field of another type":         {http.MethodPost, claimShell, `{"labels":{"a":1}}`, claims, 422, "labels", "invalid"},
		"two names":                       {http.MethodPost, claimShell, `{"name":"a","generateName":"b"}`, claims, 422, "name, generateName: ", "invalid"},
		"a label of sandbar.dev":          {http.MethodPost, claimShell, `{"labels":{"sandbar.dev/claim":"x"}}`, claims, 422, `labels["sandbar.dev/claim"]`, "invalid"},
		"an annotation of sandbar.dev":    {http.MethodPost, claimShell, `{"annotations":{"x.sandbar.dev/claim-uid":"x"}}`, claims, 422, "not a tenant's to set", "invalid"},
		"a long wait":                     {http.MethodPost, claimShell, `{"wait":"5m1s"}`, claims, 422, "from 0s to 5m0s", "invalid"},
		"a wait of the past":              {http.MethodPost, claimShell, `{"wait":"-1s"}`, claims, 422, "from 0s to 5m0s", "invalid"},
		"a key that is none":              {http.MethodPost, claimShell, `{"annotations":{"sandbar.dev/idempotency-key":""}}`, claims, 422, "1 to 255", "invalid"},
		"a body that is too large":        {http.MethodPost, claimShell, strings.Repeat(" ", claim.MaxBody+1), claims, 413, "larger than 65536 bytes", "body_too_large"},
		"too many labels":                 {http.MethodPost, claimShell, `{"labels":{` + manyPairs(claim.MaxPairs+1) + `}}`, claims, 422, "at most 64", "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t)
			w.kcp.grant("claims", c.rights...)
			res, body := w.do(c.method, c.path, "claims", strings.NewReader(c.body))
			if status := wantStatus(t, res, body, c.code); !strings.Contains(status.Message, c.told) {
				t.Errorf("it was told %q, not %q", status.Message, c.told)
			}
			eventually(t, "the access line", func() bool { return w.lastReason() == c.reason })
			if names := w.kcp.boxes.names(); len(names) > 0 {
				t.Errorf("there are %v", names)
			}
		})
	}
}

func manyPairs(n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf(`"l%d":"x"`, i)
	}
	return strings.Join(pairs, ",")
}

func TestWhatTheWorkspaceSaysOfASandboxReachesTheCaller(t *testing.T) {
	for name, c := range map[string]struct {
		code    int
		words   string
		want    int
		told    string
		reason  string
		retries bool
	}{
		"a name that is taken":       {409, `sandboxes.sandbar.dev "mine" already exists`, 409, "there is a Sandbox mine already", "name_taken", false},
		"a field that is wrong":      {422, `Sandbox "mine" is invalid: spec.prewarm: Unsupported value: "Maybe"`, 422, `spec.prewarm: Unsupported value: "Maybe"`, "invalid", false},
		"a ResourceQuota":            {403, `sandboxes.sandbar.dev "mine" is forbidden: exceeded quota: team, requested: count/sandboxes.sandbar.dev=1, used: 5, limited: 5`, 403, "a ResourceQuota of the workspace has no room for another Sandbox: delete some", "quota", false},
		"a policy of the workspace":  {403, `sandboxes "mine" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no sandboxes on Sundays`, 403, "no sandboxes on Sundays", "denied", false},
		"a namespace that is not":    {404, `namespaces "default" not found`, 404, "no namespace default, or does not serve sandboxes", "no_instance", false},
		"a kcp that has too much":    {429, "too many requests", 503, "did not answer: try again", "kcp_unavailable", true},
		"a kcp that fails":           {500, "", 503, "did not answer: try again", "kcp_unavailable", true},
		"the caller's token in them": {422, "you sent " + adminToken, 422, "the workspace does not take the Sandbox", "invalid", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t)
			w.kcp.boxes.refuse = func(rw http.ResponseWriter) { say(rw, c.code, c.words) }
			res, body := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"name":"mine"}`))
			status := wantStatus(t, res, body, c.want)
			if !strings.Contains(status.Message, c.told) || strings.Contains(status.Message, adminToken) {
				t.Errorf("it was told %q, not %q", status.Message, c.told)
			}
			if (res.Header.Get("Retry-After") != "") != c.retries {
				t.Errorf("Retry-After is %q", res.Header.Get("Retry-After"))
			}
			eventually(t, "the access line", func() bool { return w.lastReason() == c.reason })
		})
	}
}

func TestACreationWithoutAnAnswer(t *testing.T) {
	for key, told := range map[string]string{"": "look for it before you send the request again", "k": "with the same idempotency key"} {
		w := newClaimWorld(t)
		w.kcp.boxes.refuse = func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
		body := `{}`
		if key != "" {
			body = `{"annotations":{"sandbar.dev/idempotency-key":"k"}}`
		}
		res, answer := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(body))
		if status := wantStatus(t, res, answer, http.StatusGatewayTimeout); !strings.Contains(status.Message, told) {
			t.Errorf("it was told %q, not %q", status.Message, told)
		}
	}
}

func TestASandboxThatIsNotReadyInTime(t *testing.T) {
	w := newClaimWorld(t)
	s := w.claimed(http.StatusAccepted, `{"name":"slow","wait":"0s"}`)
	if s.Ready() || !strings.Contains(s.Message, "Sandbox slow is not Ready yet, and goes on starting: the provider has not reported on it yet. Wait for it with sandbar wait sandbox slow") {
		t.Errorf("%+v", s)
	}
	s = w.claimed(http.StatusAccepted, `{"name":"slow-2","wait":"20ms"}`, withKey("k"))
	if s.Metadata.Name != "slow-2" || !strings.Contains(s.Message, "with its idempotency key") {
		t.Errorf("%+v", s)
	}
	w.wantMetrics(`sandbar_dataplane_claims_total{answer="not_ready",start="unknown"} 2`)
}

// eventuallyWatched waits until a Sandbox is watched.
func (w *world) eventuallyWatched(n int) {
	w.t.Helper()
	eventually(w.t, "the Sandbox is watched", func() bool {
		w.kcp.boxes.mu.Lock()
		defer w.kcp.boxes.mu.Unlock()
		return w.kcp.boxes.watches >= n
	})
}

func TestAClaimEndsWithWhatBecomesOfItsSandbox(t *testing.T) {
	condition := func(message string) []any {
		return []any{map[string]any{"type": "Ready", "status": "False", "reason": "R", "message": message, "lastTransitionTime": nil}}
	}
	for name, c := range map[string]struct {
		happens func(*fakeBoxes)
		code    int
		told    string
	}{
		"it fails": {func(b *fakeBoxes) {
			b.report("default/mine", map[string]any{"phase": "Materializing", "conditions": condition("pulling the image")})
			b.report("default/mine", map[string]any{"phase": "Failed", "conditions": condition("there is no such image")})
		}, 202, "does not become so by itself: there is no such image"},
		"it is deleted": {func(b *fakeBoxes) { b.remove("default/mine") }, 410, "Sandbox mine was deleted before it was Ready"},
		"it is deleted and made again": {func(b *fakeBoxes) {
			b.change("default/mine", func(o *unstructured.Unstructured) { o.SetUID("another") })
		}, 410, "was deleted before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				res, body := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"name":"mine","wait":"30s"}`))
				if res.StatusCode != c.code || !strings.Contains(body, c.told) {
					t.Errorf("got %d %s, want %d with %q", res.StatusCode, body, c.code, c.told)
				}
			}()
			w.eventuallyWatched(1)
			c.happens(&w.kcp.boxes)
			<-done
		})
	}
}

// kcp ends watches after some minutes, and when it has forgotten the version that they begin with.
func TestAWatchThatEndsIsBegunAgain(t *testing.T) {
	for name, c := range map[string]struct{ cut, watches int }{"and shows what happens then": {2, 3}, "and what has happened meanwhile is read": {1000, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t)
			w.kcp.boxes.cut = c.cut
			done := make(chan struct{})
			go func() {
				defer close(done)
				res, body := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"name":"mine","wait":"1m"}`))
				if res.StatusCode != http.StatusCreated {
					t.Errorf("got %d %s", res.StatusCode, body)
				}
			}()
			w.eventuallyWatched(c.watches)
			w.kcp.boxes.report("default/mine", readyStatus("mine"))
			<-done
		})
	}
}

func TestWhoMayNotWatchIsToldSo(t *testing.T) {
	w := newClaimWorld(t)
	w.kcp.grant("claims", "get sandboxtemplates", "create sandboxtemplates/claim", "create sandboxes")
	res, body := w.do(http.MethodPost, claimShell, "claims", strings.NewReader(`{"name":"mine"}`))
	if res.StatusCode != http.StatusAccepted || !strings.Contains(body, "you may not watch sandboxes") {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
}

func TestTheSameKeyAnswersWithTheSameSandbox(t *testing.T) {
	w := newClaimWorld(t)
	w.makesReady()
	first := w.claimed(http.StatusCreated, `{"labels":{"run":"a"},"wait":"30s"}`, withKey("k"))
	if first.Metadata.Annotations[placement.AnnotationIdempotencyKey] != "k" {
		t.Errorf("its annotations are %v", first.Metadata.Annotations)
	}
	for name, change := range map[string][]func(*http.Request){"by header": {withKey("k")}, "by annotation": nil} {
		body := `{"labels":{"run":"a"},"wait":"1m"}` // how long to wait does not count
		if change == nil {
			body = `{"labels":{"run":"a"},"annotations":{"sandbar.dev/idempotency-key":"k"}}`
		}
		if again := w.claimed(http.StatusOK, body, change...); again.Metadata.UID != first.Metadata.UID {
			t.Errorf("%s: another Sandbox, %s", name, again.Metadata.Name)
		}
	}
	w.wantMetrics(`sandbar_dataplane_claims_total{answer="same",start="Warm"} 2`)
	for name, body := range map[string]string{"other labels": `{"labels":{"run":"b"}}`, "a name": `{"name":"mine"}`, "nothing": ``} {
		res, answer := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(body), withKey("k"))
		if status := wantStatus(t, res, answer, 422); !strings.Contains(status.Message, "for another request, which made Sandbox "+first.Metadata.Name) {
			t.Errorf("%s: it was told %q", name, status.Message)
		}
	}
	t.Run("with two keys", func(t *testing.T) {
		res, answer := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"annotations":{"sandbar.dev/idempotency-key":"k"}}`), withKey("l"))
		wantStatus(t, res, answer, 422)
	})
	t.Run("another key", func(t *testing.T) {
		if other := w.claimed(http.StatusCreated, `{"labels":{"run":"a"}}`, withKey("l")); other.Metadata.UID == first.Metadata.UID {
			t.Error("the same Sandbox")
		}
	})
	t.Run("after a day", func(t *testing.T) {
		key := "default/" + first.Metadata.Name
		w.kcp.boxes.change(key, func(o *unstructured.Unstructured) {
			o.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-idempotency.Window - time.Second)))
		})
		other := w.claimed(http.StatusCreated, `{"labels":{"run":"a"}}`, withKey("k"))
		if other.Metadata.UID == first.Metadata.UID {
			t.Error("the same Sandbox")
		}
		if again := w.claimed(http.StatusOK, `{"labels":{"run":"a"}}`, withKey("k")); again.Metadata.UID != other.Metadata.UID {
			t.Error("a third Sandbox")
		}
	})
	t.Run("of a name that is another's", func(t *testing.T) {
		w.claimed(http.StatusCreated, `{"name":"mine"}`)
		res, answer := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"name":"mine"}`), withKey("m"))
		if status := wantStatus(t, res, answer, 409); !strings.Contains(status.Message, "there is a Sandbox mine already") {
			t.Errorf("it was told %q", status.Message)
		}
	})
	t.Run("of a Sandbox that is being deleted", func(t *testing.T) {
		w.kcp.boxes.change("default/"+w.claimed(http.StatusCreated, `{}`, withKey("n")).Metadata.Name, func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Now())) })
		res, answer := w.do(http.MethodPost, claimShell, adminToken, nil, withKey("n"))
		if status := wantStatus(t, res, answer, 409); !strings.Contains(status.Message, "is being deleted") || res.Header.Get("Retry-After") == "" {
			t.Errorf("it was told %q", status.Message)
		}
	})
}

func TestRequestsWithOneKeyThatComeAtOnceMakeOneSandbox(t *testing.T) {
	w := newClaimWorld(t)
	w.makesReady()
	const n = 12
	uids := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			res, answer := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"wait":"30s"}`), withKey("k"))
			var s claim.Sandbox
			if err := json.Unmarshal([]byte(answer), &s); err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
				t.Errorf("got %d %s", res.StatusCode, answer)
			}
			uids[i] = string(s.Metadata.UID)
		})
	}
	all.Wait()
	if slices.Sort(uids); uids[0] != uids[n-1] || len(w.kcp.boxes.names()) != 1 {
		t.Errorf("they made %v", w.kcp.boxes.names())
	}
}

func TestAFullWorkspaceGetsNoSandboxButThoseThatAreReadyToBeTaken(t *testing.T) {
	limited := func(s *setup) {
		s.provider = append(s.provider, infrastructure(map[string]any{"instancesPerWorkspace": int64(1)}, ""))
	}
	w := newClaimWorld(t, limited)
	w.makesReady()
	eventually(t, "the limit is known", func() bool { return w.server.settings.now().instancesPerWorkspace == 1 })
	res, body := w.do(http.MethodPost, claimShell, adminToken, nil)
	status := wantStatus(t, res, body, http.StatusTooManyRequests)
	if !strings.Contains(status.Message, "the workspace has 1 instances") || !strings.Contains(status.Message, "may have 1: delete some") || res.Header.Get("Retry-After") != "5" {
		t.Errorf("it was told %q, Retry-After %s", status.Message, res.Header.Get("Retry-After"))
	}
	member := placement.Member{
		ID: placement.Bear("cluster1"), SetUID: "set", Set: types.NamespacedName{Namespace: "default", Name: "shells"}, State: placement.MemberWarm, Revision: "r",
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: member.Namespace(), Labels: member.Labels("sandbox"), Annotations: member.Annotations()}}
	if _, err := w.runtime.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the member is known", func() bool { _, ready := w.server.cache.Places("", "cluster1", "default"); return ready == 1 })
	if _, elsewhere := w.server.cache.Places("", "cluster1", "other"); elsewhere != 0 {
		t.Errorf("%d are ready for another namespace", elsewhere)
	}
	w.claimed(http.StatusCreated, `{}`)
}

// kcp ends no watch for a right that was withdrawn: what the caller is told after a wait of minutes is asked about.
func TestARightThatIsWithdrawnDuringTheWaitOfAClaimCounts(t *testing.T) {
	for name, c := range map[string]struct {
		rights []string
		code   int
	}{
		"withdrawn":       {[]string{"get sandboxtemplates", "watch sandboxes", "get sandboxes"}, http.StatusForbidden},
		"not asked about": {[]string{"get sandboxtemplates", "create sandboxtemplates/claim"}, http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClaimWorld(t)
			w.kcp.grant("claims", "get sandboxtemplates", "create sandboxtemplates/claim", "create sandboxes", "watch sandboxes")
			done := make(chan struct{})
			go func() {
				defer close(done)
				res, body := w.do(http.MethodPost, claimShell, "claims", strings.NewReader(`{"name":"mine","wait":"1m"}`))
				if res.StatusCode != c.code || (c.code == http.StatusForbidden) == strings.Contains(body, "https://dp/mine") {
					t.Errorf("got %d %s, want %d", res.StatusCode, body, c.code)
				}
			}()
			w.eventuallyWatched(1)
			w.kcp.grant("claims", c.rights...)
			w.server.handler.authorizer.Forget("cluster1", time.Now()) // else an answer of kcp counts for ten seconds
			w.kcp.boxes.report("default/mine", readyStatus("mine"))
			<-done
		})
	}
}

func TestDrainingEndsAClaimThatWaits(t *testing.T) {
	w := newClaimWorld(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, body := w.do(http.MethodPost, claimShell, adminToken, strings.NewReader(`{"name":"mine","wait":"5m"}`))
		if res.StatusCode != http.StatusAccepted || !strings.Contains(body, "goes on starting") {
			t.Errorf("got %d %s", res.StatusCode, body)
		}
	}()
	w.eventuallyWatched(1)
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	<-done
}

func TestTheTableOfLimitsHasTheRetryOfAFullWorkspace(t *testing.T) {
	limitstable.Check(t, "../docs/limits.md", "Claiming Sandboxes", false,
		limitstable.Limit{Name: "after how long to ask again in a workspace that is full", Number: limitstable.Duration(quotaRetry)})
}
