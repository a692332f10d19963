// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// bound is a workspace whose binding names a data plane for SandboxRunners, and the methods of requests to it.
func bound(t *testing.T) (w Workspace, methods *[]string) {
	t.Helper()
	methods = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		*methods = append(*methods, r.Method)
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(rw, `{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBindingList","items":[{"apiVersion":"apis.kcp.io/v1alpha2","kind":"APIBinding",
			"metadata":{"name":"sandbar.dev","annotations":{"extra.apis.kcp.io/dataplane-url":"https://sandboxes.example.com"}},
			"status":{"boundResources":[{"group":"sandbar.dev","resource":"sandboxrunners"}]}}]}`)
	}))
	t.Cleanup(server.Close)
	store := TrustStore{Path: filepath.Join(t.TempDir(), "folder", "trust.json")}
	return Workspace{Config: &rest.Config{Host: server.URL}, Namespace: "default", Trust: store}, methods
}

// The attack: a binding to a stranger's provider. A front end that forgets to ask must not trust its data plane.
func TestEnsureCreatesNothingForADataPlaneThatIsNotConfirmed(t *testing.T) {
	for name, confirm := range map[string]func(client.Offer) bool{
		"nobody to ask":    nil,
		"a person says no": func(client.Offer) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			w, methods := bound(t)
			w.Confirm = confirm
			err := w.Ensure(t.Context(), "web", EnsureOptions{Dir: t.TempDir(), Timeout: 5 * time.Second})
			var refused *NotTrustedError
			if !errors.As(err, &refused) || refused.Standing != NotTrusted || refused.Offer.URL != "https://sandboxes.example.com" {
				t.Fatalf("it fails with %v", err)
			}
			if strings.Join(*methods, "") != http.MethodGet {
				t.Errorf("the workspace got %v", *methods)
			}
			if planes, err := w.Trust.Load(); err != nil || len(planes) > 0 {
				t.Errorf("trusted are %v, %v", planes, err)
			}
		})
	}
}

func TestADataPlaneThatIsTrustedNeedsNoQuestion(t *testing.T) {
	w, _ := bound(t)
	w.Confirm = func(client.Offer) bool { t.Error("the person is asked again"); return false }
	if err := w.Trust.Add(client.DataPlane{URL: "https://sandboxes.example.com:443"}); err != nil {
		t.Fatal(err)
	}
	if err := w.TrustFor(t.Context(), client.SandboxRunners.GroupResource()); err != nil {
		t.Error(err)
	}
}

// The token of another kcp is another one: whether it may go to the same data plane is asked again.
func TestTrustIsForTheServerOfTheWorkspace(t *testing.T) {
	first, _ := bound(t)
	second, _ := bound(t)
	second.Trust = first.Trust
	asked := 0
	second.Confirm = func(client.Offer) bool { asked++; return true }
	plane := client.DataPlane{URL: "https://sandboxes.example.com"}
	if err := first.TrustURL(t.Context(), plane, true); err != nil {
		t.Fatal(err)
	}
	if planes, err := second.Trusted(); err != nil || len(planes) > 0 {
		t.Errorf("in another kcp it is trusted too: %v, %v", planes, err)
	}
	for range 2 {
		if err := second.TrustFor(t.Context(), client.SandboxRunners.GroupResource()); err != nil || asked != 1 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	}
	for _, w := range []Workspace{first, second} {
		if planes, err := w.Trusted(); err != nil || len(planes) != 1 || len(planes[0].Servers) != 2 {
			t.Errorf("trusted are %v, %v", planes, err)
		}
	}
	// With another CA, it may be another's: only what was asked for now counts.
	plane.CABundle, plane.Servers = []byte("another"), []string{client.ServerOf(second.Config)}
	if err := first.Trust.Add(plane); err != nil {
		t.Fatal(err)
	}
	if planes, err := first.Trusted(); err != nil || len(planes) > 0 {
		t.Errorf("with another CA: %v, %v", planes, err)
	}
	// An entry of a former release is for every server, and stays so.
	plane.Servers = nil
	if err := first.Trust.Add(plane); err != nil {
		t.Fatal(err)
	}
	plane.Servers = []string{client.ServerOf(second.Config)}
	if err := first.Trust.Add(plane); err != nil {
		t.Fatal(err)
	}
	if planes, err := first.Trusted(); err != nil || len(planes) != 1 {
		t.Errorf("of a former release: %v, %v", planes, err)
	}
}

func TestATrustStoreHasOneEntryPerDataPlane(t *testing.T) {
	store := TrustStore{Path: filepath.Join(t.TempDir(), "folder", "trust.json")}
	if removed, err := store.Remove("https://one.example.com"); removed || err != nil {
		t.Errorf("a store without a file has one: %v", err)
	}
	for _, address := range []string{"https://one.example.com", "https://two.example.com", "https://one.example.com:443"} {
		if err := store.Add(client.DataPlane{URL: address}); err != nil {
			t.Fatal(err)
		}
	}
	if planes, err := store.Load(); err != nil || len(planes) != 2 {
		t.Errorf("trusted are %v, %v", planes, err)
	}
	if removed, err := store.Remove("https://one.example.com/"); !removed || err != nil {
		t.Errorf("one is not removed: %v", err)
	}
	if planes, err := store.Load(); err != nil || len(planes) != 1 || planes[0].URL != "https://two.example.com" {
		t.Errorf("left are %v, %v", planes, err)
	}
}

func TestAURLThatCanNeverBeRightIsAMistakeInTheCall(t *testing.T) {
	w, methods := bound(t)
	var mistake *UsageError
	if err := w.TrustURL(t.Context(), client.DataPlane{URL: "http://sandboxes.example.com"}, true); !errors.As(err, &mistake) {
		t.Errorf("it fails with %v", err)
	}
	if len(*methods) > 0 {
		t.Errorf("the workspace was asked: %v", *methods)
	}
}
