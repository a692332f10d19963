// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/pkg/export"
)

var alice = authenticationv1.UserInfo{
	Username: "alice", UID: "u1", Groups: []string{"team-a", "system:authenticated"},
	Extra: map[string]authenticationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:c1", "cluster:c2"}, "b": nil},
}

func TestTwoSubjectsShareAKeyOnlyIfTheyAreTheSame(t *testing.T) {
	user := func(change func(*authenticationv1.UserInfo)) authenticationv1.UserInfo {
		u := alice.DeepCopy()
		change(u)
		return *u
	}
	seen := map[[sha256.Size]byte]string{Bearer("alice").CredentialKey(): "a token that is the name"}
	for name, u := range map[string]authenticationv1.UserInfo{
		"alice":                   alice,
		"another name":            user(func(u *authenticationv1.UserInfo) { u.Username = "alic" }),
		"another UID":             user(func(u *authenticationv1.UserInfo) { u.UID = "" }),
		"a byte from name to UID": user(func(u *authenticationv1.UserInfo) { u.Username, u.UID = "alic", "eu1" }),
		"a group less":            user(func(u *authenticationv1.UserInfo) { u.Groups = u.Groups[:1] }),
		"groups in another order": user(func(u *authenticationv1.UserInfo) { u.Groups = []string{u.Groups[1], u.Groups[0]} }),
		"a byte between groups":   user(func(u *authenticationv1.UserInfo) { u.Groups = []string{"team-as", "ystem:authenticated"} }),
		"no extra":                user(func(u *authenticationv1.UserInfo) { u.Extra = nil }),
		"another scope":           user(func(u *authenticationv1.UserInfo) { u.Extra["authentication.kcp.io/scopes"][1] = "cluster:c3" }),
		"a scope less": user(func(u *authenticationv1.UserInfo) {
			u.Extra["authentication.kcp.io/scopes"] = u.Extra["authentication.kcp.io/scopes"][:1]
		}),
		"a value at another extra": user(func(u *authenticationv1.UserInfo) { u.Extra["b"] = authenticationv1.ExtraValue{"x"} }),
	} {
		key := Subject(u).CredentialKey()
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q share a key", name, other)
		}
		seen[key] = name
		if again := Subject(*u.DeepCopy()).CredentialKey(); again != key {
			t.Errorf("%q has two keys", name)
		}
	}
}

func TestASubjectIsNotChangedFromOutsideAndPrintsAsNothing(t *testing.T) {
	u := *alice.DeepCopy()
	caller := Subject(u)
	u.Groups[0] = "system:masters"
	got, ok := caller.User()
	if !ok || got.Groups[0] != "team-a" {
		t.Errorf("got %v, %t", got, ok)
	}
	got.Groups[0] = "system:masters"
	if again, _ := caller.User(); again.Groups[0] != "team-a" {
		t.Error("what User returns leads to the caller's own")
	}
	held := struct{ caller Caller }{caller}
	encoded, err := json.Marshal(caller)
	if err != nil {
		t.Fatal(err)
	}
	if printed := fmt.Sprintf("%v %+v %#v %s", held, held, held, caller) + string(encoded); strings.Contains(printed, "alice") {
		t.Errorf("printed %s", printed)
	}
	if !Subject(authenticationv1.UserInfo{Groups: []string{"g"}}).IsZero() {
		t.Error("a user without a name is somebody")
	}
}

func FuzzCredentialKey(f *testing.F) {
	f.Add("a", "", "b", "c", "", "a", "", "bc", "", "")
	f.Add("a", "b", "", "", "k", "ab", "", "", "", "k")
	f.Fuzz(func(t *testing.T, n1, u1, g1, h1, x1, n2, u2, g2, h2, x2 string) {
		info := func(name, uid, g, h, extra string) authenticationv1.UserInfo {
			return authenticationv1.UserInfo{
				Username: name, UID: uid, Groups: []string{g, h}, Extra: map[string]authenticationv1.ExtraValue{extra: {g}, h: {}},
			}
		}
		a, b := info(n1, u1, g1, h1, x1), info(n2, u2, g2, h2, x2)
		if n1 == "" || n2 == "" {
			return
		}
		if same := cmp.Equal(a, b); same != (Subject(a).CredentialKey() == Subject(b).CredentialKey()) {
			t.Errorf("%+v and %+v: equal %t, keys the other way", a, b, same)
		}
		if Subject(a).CredentialKey() == Bearer(n2).CredentialKey() {
			t.Errorf("the subject %+v is the token %q", a, n2)
		}
	})
}

// newVirtual makes a client whose kcp, and whose virtual workspace, answers with handler.
func newVirtual(t *testing.T, handler http.HandlerFunc, known ...export.Binding) *Client {
	t.Helper()
	c := newClient(t, handler)
	v, err := NewVirtualWorkspace(&rest.Config{
		Host: "https://" + c.base.Host + "/clusters/root:sandbar", BearerToken: "the-provider's-token",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
	}, "sandbar.dev", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(v.transport) })
	for _, b := range known {
		if err := v.Store("https://" + c.base.Host + "/services/apiexport/p/sandbar.dev").Add(objectOf(b)); err != nil {
			t.Fatal(err)
		}
	}
	c.virtual = v
	return c
}

func closeIdle(rt http.RoundTripper) {
	(&http.Client{Transport: rt}).CloseIdleConnections()
}

// objectOf is an APIBinding as a virtual workspace shows it.
func objectOf(b export.Binding) *unstructured.Unstructured {
	phase, state := "Binding", "Rejected"
	if b.Bound {
		phase = "Bound"
	}
	if b.Claimed {
		state = "Accepted"
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": b.Name, "annotations": map[string]any{"kcp.io/cluster": b.Cluster, "kcp.io/path": b.Path}},
		"spec": map[string]any{
			"reference": map[string]any{"export": map[string]any{"name": "sandbar.dev"}},
			"permissionClaims": []any{map[string]any{
				"group": ClaimGroup, "resource": ClaimResource, "verbs": []any{ClaimVerb}, "state": state,
			}},
		},
		"status": map[string]any{"phase": phase},
	}}
	if b.Going {
		obj.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	}
	return obj
}

var bound = export.Binding{Cluster: "c1", Name: "sandbar.dev", Path: "root:acme", Bound: true, Claimed: true}

// What the provider may read is no permission: without kcp's yes about the subject, the object
// that was read is dropped.
func TestASubjectMayReadOnlyWhatKcpSaysItMayGet(t *testing.T) {
	for name, c := range map[string]struct {
		review, read string
		codes        [2]int // of the review and of the read
		want         Outcome
	}{
		"allowed and there":                    {`{"status":{"allowed":true}}`, `{"metadata":{"name":"demo","uid":"u"}}`, [2]int{201, 200}, Allowed},
		"denied, though the provider reads":    {`{"status":{"allowed":false}}`, `{"metadata":{"name":"demo","uid":"u"}}`, [2]int{201, 200}, Denied},
		"no word, though the provider reads":   {`{}`, `{"metadata":{"name":"demo","uid":"u"}}`, [2]int{500, 200}, Unavailable},
		"allowed and missing":                  {`{"status":{"allowed":true}}`, `{}`, [2]int{201, 404}, NotFound},
		"denied and missing":                   {`{"status":{"allowed":false}}`, `{}`, [2]int{201, 404}, Denied},
		"the provider may not ask":             {`{}`, `{"metadata":{"name":"demo","uid":"u"}}`, [2]int{403, 200}, Unavailable},
		"the provider is unknown":              {`{}`, `{}`, [2]int{401, 401}, Unavailable},
		"reviews are not served":               {`{}`, `{"metadata":{"name":"demo","uid":"u"}}`, [2]int{404, 200}, Unavailable},
		"allowed, and the provider may not":    {`{"status":{"allowed":true}}`, `{}`, [2]int{201, 403}, Unavailable},
		"a review that says nothing is no yes": {`{}`, `{"metadata":{"name":"demo","uid":"u"}}`, [2]int{201, 200}, Denied},
	} {
		t.Run(name, func(t *testing.T) {
			client := newVirtual(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Authorization"); got != "Bearer the-provider's-token" {
					t.Errorf("kcp got %q", got)
				}
				if !strings.HasPrefix(r.URL.Path, "/services/apiexport/p/sandbar.dev/clusters/c1/") {
					t.Errorf("asked for %s", r.URL.Path)
				}
				if r.Method == http.MethodPost {
					w.WriteHeader(c.codes[0])
					_, _ = w.Write([]byte(c.review))
					return
				}
				w.WriteHeader(c.codes[1])
				_, _ = w.Write([]byte(c.read))
			}, bound)
			if _, got := client.GetMetadata(t.Context(), Subject(alice), ref); got.Outcome != c.want {
				t.Errorf("got %+v, want %v", got, c.want)
			}
		})
	}
}

func TestAReviewCarriesAllOfTheSubject(t *testing.T) {
	var got authorizationv1.SubjectAccessReview
	client := newVirtual(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&got)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"status":{"allowed":true}}`))
	}, bound)
	attributes := &authorizationv1.ResourceAttributes{Verb: "create", Resource: "sandboxrunners", Subresource: "sync", Name: "demo"}
	answer := client.Review(t.Context(), Subject(alice), "root:acme", authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes})
	if answer.Outcome != Allowed {
		t.Fatalf("got %+v", answer)
	}
	want := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: attributes, User: alice.Username, UID: alice.UID, Groups: alice.Groups,
		Extra: map[string]authorizationv1.ExtraValue{"authentication.kcp.io/scopes": {"cluster:c1", "cluster:c2"}, "b": nil},
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("kcp was asked otherwise (-want +got):\n%s", diff)
	}
}

func TestWhereSubjectsCanBeAskedAbout(t *testing.T) {
	unclaimed, half, going := bound, bound, bound
	unclaimed.Claimed, half.Bound, going.Going = false, false, true
	twin := export.Binding{Cluster: "c2", Name: "sandbar.dev", Path: "root:acme", Bound: true, Claimed: true}
	second := bound
	second.Name, second.Claimed = "another", false
	for name, c := range map[string]struct {
		known     []export.Binding
		workspace string
		want      Outcome
	}{
		"a workspace by its path":                       {[]export.Binding{bound}, "root:acme", Allowed},
		"a workspace by its cluster's name":             {[]export.Binding{bound}, "c1", Allowed},
		"a workspace that is not known, before all are": {[]export.Binding{bound}, "root:other", Unavailable},
		"a claim that is not accepted":                  {[]export.Binding{unclaimed}, "root:acme", ClaimNotAccepted},
		"a binding of some of the kinds":                {[]export.Binding{half}, "root:acme", Allowed},
		"a binding that is going, before all are known": {[]export.Binding{going}, "root:acme", Unavailable},
		"a path that two workspaces have names neither": {[]export.Binding{bound, twin}, "root:acme", Unavailable},
		"two of one path by the cluster's name":         {[]export.Binding{bound, twin}, "c2", Allowed},
		"a second binding takes nothing away":           {[]export.Binding{second, bound}, "root:acme", Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			client := newVirtual(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(`{"status":{"allowed":true}}`))
			}, c.known...)
			got := client.Review(t.Context(), Subject(alice), c.workspace, authorizationv1.SelfSubjectAccessReviewSpec{})
			if got.Outcome != c.want {
				t.Errorf("got %+v, want %v", got, c.want)
			}
		})
	}
}

func TestWithoutAVirtualWorkspaceSubjectsGetNoAnswer(t *testing.T) {
	client := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("kcp was asked") })
	_, read := client.GetMetadata(t.Context(), Subject(alice), ref)
	review := client.Review(t.Context(), Subject(alice), "root:acme", authorizationv1.SelfSubjectAccessReviewSpec{})
	if read.Outcome != Unavailable || review.Outcome != Unavailable {
		t.Errorf("got %+v and %+v", read, review)
	}
}

func TestWhoAmI(t *testing.T) {
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if want := "/base/clusters/root:acme/apis/authentication.k8s.io/v1/selfsubjectreviews"; r.URL.Path != want {
			t.Errorf("asked %s", r.URL.Path)
		}
		if r.Header.Get("Authorization") == "Bearer nameless" {
			_, _ = w.Write([]byte(`{}`))
			return
		}
		_ = json.NewEncoder(w).Encode(authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: alice}})
	})
	for name, caller := range map[string]Caller{"kcp says who a token is": Bearer(token), "a subject is known": Subject(alice)} {
		got, answer := client.WhoAmI(t.Context(), caller, "root:acme")
		if diff := cmp.Diff(alice.Groups, got.Groups); answer.Outcome != Allowed || got.Username != "alice" || diff != "" {
			t.Errorf("%s: got %+v, %+v", name, got, answer)
		}
	}
	if _, answer := client.WhoAmI(t.Context(), Bearer("nameless"), "root:acme"); answer.Outcome != Unavailable {
		t.Errorf("somebody without a name: %+v", answer)
	}
}
