// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnObjectIsCreatedAsTheCaller(t *testing.T) {
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got := []string{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)}
		want := []string{
			"POST", "/base/clusters/root:acme/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners", "fieldManager=sandbar-dataplane&fieldValidation=Strict",
			"Bearer " + token, "application/json", `{"metadata":{"name":"demo"}}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"metadata":{"name":"demo","uid":"u1"}}`))
	})
	out := &metav1.PartialObjectMetadata{}
	got := client.Create(t.Context(), Bearer(token), ref, map[string]any{"metadata": map[string]any{"name": "demo"}}, out)
	if got.Outcome != Allowed || out.UID != "u1" || got.Code != 0 {
		t.Errorf("%+v, %+v", got, out)
	}
}

func TestKcpsWordsAboutWhatItDoesNotCreate(t *testing.T) {
	said := func(message string) string {
		raw, _ := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status"}, Message: message})
		return string(raw)
	}
	for name, c := range map[string]struct {
		code  int
		body  string
		want  Outcome
		words string
	}{
		"a name that is taken":    {409, said("already exists"), Refused, "already exists"},
		"what cannot be":          {422, said("spec.x: Invalid value"), Refused, "spec.x: Invalid value"},
		"a field that is not":     {400, said("strict decoding error"), Refused, "strict decoding error"},
		"a quota":                 {403, said("exceeded quota: team"), Denied, "exceeded quota: team"},
		"a namespace that is not": {404, said("namespaces x not found"), NotFound, "namespaces x not found"},
		"a token that ended":      {401, said("Unauthorized"), Unauthorized, "Unauthorized"},
		"too many":                {429, said("slow down"), Unavailable, "slow down"},
		"a failure":               {500, "<html>", Unavailable, ""},
		"words with the token":    {422, said("you sent " + token), Refused, ""},
		"words of two lines":      {422, said("a\nb\x1b[0m"), Refused, "a b [0m"},
		"words without an end":    {422, said(strings.Repeat("x", maxWords+1)), Refused, strings.Repeat("x", maxWords)},
		"more than is read":       {422, said(strings.Repeat("x", maxRefusalBytes)), Refused, ""},
		"a redirect":              {302, "", Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			got := client.Create(t.Context(), Bearer(token), ref, map[string]any{}, &struct{}{})
			if got.Outcome != c.want || got.Code != c.code || got.Words != c.words {
				t.Errorf("%v %d %q, want %v %q", got.Outcome, got.Code, got.Words, c.want, c.words)
			}
			if c.code == 429 && got.RetryAfter != 3*time.Second {
				t.Errorf("asks to wait %v", got.RetryAfter)
			}
		})
	}
}

func TestACreationThatIsNotAnsweredHasNoCode(t *testing.T) {
	client := newClient(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if got := client.Create(t.Context(), Bearer(token), ref, map[string]any{}, &struct{}{}); got.Outcome != Unavailable || got.Code != 0 || got.Err == nil {
		t.Errorf("%+v", got)
	}
}

// The provider could create and read what it likes.
func TestForASubjectNothingIsCreatedListedOrWatched(t *testing.T) {
	client := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("kcp was asked") })
	for caller, want := range map[Caller]Outcome{Subject(authenticationv1.UserInfo{Username: "alice"}): Denied, {}: Unauthorized} {
		if got := client.Create(t.Context(), caller, ref, map[string]any{}, &struct{}{}); got.Outcome != want {
			t.Errorf("create: %v", got.Outcome)
		}
		if _, got := client.List(t.Context(), caller, ref, "a=b"); got.Outcome != want {
			t.Errorf("list: %v", got.Outcome)
		}
		if got := client.Watch(t.Context(), caller, ref, "1", nil); got.Outcome != want {
			t.Errorf("watch: %v", got.Outcome)
		}
	}
}

func TestObjectsAreListedAsTheCaller(t *testing.T) {
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/clusters/root:acme/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners" || r.URL.RawQuery != "labelSelector=a%3Db%26c" ||
			r.Header.Get("Authorization") != "Bearer "+token || !strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
			t.Errorf("kcp got %s, %v", r.URL, r.Header)
		}
		_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"x"}}]}`))
	})
	list, got := client.List(t.Context(), Bearer(token), ref, "a=b&c")
	if got.Outcome != Allowed || len(list) != 1 || list[0].Name != "x" {
		t.Errorf("%+v, %+v", list, got)
	}
}

func TestAWatchShowsAnObjectUntilItIsAsItShouldBe(t *testing.T) {
	event := func(kind, name string) string {
		return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q}}}`+"\n", kind, name)
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		code   int
		events string
		want   Outcome
		seen   []string
	}{
		"it is":               {200, event("ADDED", "a") + event("BOOKMARK", "b") + event("MODIFIED", "done") + event("MODIFIED", "after"), Allowed, []string{"a", "done"}},
		"it is deleted":       {200, event("MODIFIED", "a") + event("DELETED", "a"), NotFound, []string{"a"}},
		"the watch fails":     {200, event("MODIFIED", "a") + event("ERROR", "gone"), Unavailable, []string{"a"}},
		"the watch ends":      {200, event("MODIFIED", "a"), Unavailable, []string{"a"}},
		"no JSON":             {200, "<html>", Unavailable, nil},
		"it may not":          {403, "", Denied, nil},
		"a token that ended":  {401, "", Unauthorized, nil},
		"a failure":           {500, "", Unavailable, nil},
		"what cannot be read": {200, event("MODIFIED", "broken") + event("MODIFIED", "done"), Unavailable, []string{"broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				if want := "fieldSelector=metadata.name%3Ddemo&resourceVersion=7&watch=true"; r.URL.RawQuery != want || r.Header.Get("Authorization") != "Bearer "+token {
					t.Errorf("kcp got %s", r.URL)
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.events)
			})
			var seen []string
			got := client.Watch(t.Context(), Bearer(token), ref, "7", func(object json.RawMessage) (bool, error) {
				obj := &metav1.PartialObjectMetadata{}
				if err := json.Unmarshal(object, obj); err != nil {
					t.Error(err)
				}
				seen = append(seen, obj.Name)
				if obj.Name == "broken" {
					return false, broken
				}
				return obj.Name == "done", nil
			})
			if diff := cmp.Diff(c.seen, seen); got.Outcome != c.want || diff != "" || (got.Err != nil) != (c.want == Unavailable) {
				t.Errorf("%+v, want %v (-want +got):\n%s", got, c.want, diff)
			}
		})
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	watching := make(chan struct{})
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		close(watching)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-watching; cancel() }()
	if got := client.Watch(ctx, Bearer(token), ref, "7", nil); got.Outcome != Unavailable {
		t.Errorf("%+v", got)
	}
}
