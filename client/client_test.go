// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

const token = "the-callers-token"

// world is a workspace with one instance, and a data plane; both are real HTTPS servers.
type world struct {
	workspace *httptest.Server
	plane     *httptest.Server
	status    map[string]any

	mu       sync.Mutex
	requests []string // method, path and authorization that the data plane saw
}

func newWorld(t *testing.T, answer http.HandlerFunc) *world {
	t.Helper()
	return newWorldSaying(t, func() map[string]any { return nil }, answer)
}

// newWorldSaying is newWorld with further fields of the instance's status, asked for at each reading of the instance.
func newWorldSaying(t *testing.T, says func() map[string]any, answer http.HandlerFunc) *world {
	t.Helper()
	w := &world{}
	w.plane = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Authorization"))
		w.mu.Unlock()
		answer(rw, r)
	}))
	t.Cleanup(w.plane.Close)
	w.status = map[string]any{"phase": "Ready", "dataPlane": map[string]any{
		"url":   w.plane.URL + "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web",
		"verbs": []any{"log", "proxy", "components/api/log"},
	}}
	w.workspace = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/clusters/root:me/apis/sandbar.dev/v1alpha1/namespaces/default/sandboxrunners/web" {
			rw.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(rw).Encode(apierrors.NewNotFound(client.SandboxRunners.GroupResource(), "other").Status())
			return
		}
		status := maps.Clone(w.status)
		maps.Copy(status, says())
		_ = json.NewEncoder(rw).Encode(map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
			"metadata": map[string]any{"name": "web", "namespace": "default"}, "status": status,
		})
	}))
	t.Cleanup(w.workspace.Close)
	return w
}

func certificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func (w *world) config() *rest.Config {
	return &rest.Config{
		Host: w.workspace.URL + "/clusters/root:me", BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: certificateOf(w.workspace)},
	}
}

func (w *world) instance(t *testing.T, name string) (*client.Instance, error) {
	t.Helper()
	c, err := client.New(w.config(), client.DataPlane{URL: w.plane.URL, CABundle: certificateOf(w.plane)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.Instance(t.Context(), client.SandboxRunners, "default", name)
}

func TestAVerbIsCalledWithTheCallersCredential(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{}") })
	i, err := w.instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := i.Component("api").Do(t.Context(), client.Request{
		Verb: "log", Header: http.Header{"Authorization": {"Bearer another"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if _, err := i.Component("api").Port(8080).Preview(t.Context(), client.PreviewOptions{}); err != nil {
		t.Fatal(err)
	}
	base := "/dataplane/clusters/c1/namespaces/default/sandboxrunners/web/"
	want := []string{
		"POST " + base + "restart Bearer " + token, "GET " + base + "components/api/log Bearer " + token,
		"POST " + base + "components/api/ports/8080/proxy-url Bearer " + token,
	}
	if diff := cmp.Diff(want, w.requests); diff != "" {
		t.Errorf("the data plane saw (-want +got):\n%s", diff)
	}
	if !i.Has("log") || i.Has("exec") || !i.Component("api").Has("log") || i.Component("api").Has("proxy") {
		t.Errorf("verbs of %v are not told apart", i.Status.DataPlane.Verbs)
	}
}

// A status can name any place: another workspace's provider wrote it.
func TestTheCredentialGoesToTrustedDataPlanesOnly(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another host was called with %q", r.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for _, address := range []string{elsewhere.URL, strings.Replace(w.plane.URL, "127.0.0.1", "localhost", 1), "http://" + w.plane.Listener.Addr().String(), "https://user@" + w.plane.Listener.Addr().String()} {
		w.status["dataPlane"] = map[string]any{"url": address + "/dataplane/clusters/c1/sandboxrunners/web"}
		i, err := w.instance(t, "web")
		if err == nil {
			t.Errorf("an instance whose data plane is %s was accepted: %v", address, i.URL("log", "", nil))
		}
		var untrusted *client.UntrustedError
		if strings.HasPrefix(address, "https://") && !strings.Contains(address, "@") && !errors.As(err, &untrusted) {
			t.Errorf("%s: got %v, want an UntrustedError", address, err)
		}
	}
	if len(w.requests) > 0 {
		t.Errorf("the data plane saw %v", w.requests)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	i, err := w.instance(t, "web")
	if err != nil {
		t.Fatal(err)
	}
	res, err := i.Do(t.Context(), client.Request{Verb: "log"})
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if len(w.requests) != 1 {
		t.Errorf("the data plane saw %v", w.requests)
	}
}

func TestErrorsSayWhatTheServerSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		code        int
		contentType string
		body        string
		want        client.CallError
	}{
		"a Status of the data plane": {
			409, "application/json", `{"kind":"Status","apiVersion":"v1","reason":"Conflict","message":"not ready","code":409}`,
			client.CallError{Code: 409, Reason: "Conflict", Message: "not ready"},
		},
		"an error of the runner": {
			413, "application/json", `{"code":"FileTooLarge","message":"too large"}`,
			client.CallError{Code: 413, Reason: "FileTooLarge", Message: "too large", Sandbox: true},
		},
		"text":             {502, "text/plain; charset=utf-8", "no\n", client.CallError{Code: 502, Message: "no"}},
		"a page of an app": {500, "text/html", "<h1>no</h1>", client.CallError{Code: 500}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", tc.contentType)
				rw.WriteHeader(tc.code)
				_, _ = io.WriteString(rw, tc.body)
			})
			i, err := w.instance(t, "web")
			if err != nil {
				t.Fatal(err)
			}
			var got *client.CallError
			if err := i.Restart(t.Context()); !errors.As(err, &got) {
				t.Fatalf("got %v, want a CallError", err)
			}
			tc.want.Body, tc.want.Verb = []byte(tc.body), "restart"
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnInstanceThatCannotBeCalledIsToldApart(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := w.instance(t, "other"); !apierrors.IsNotFound(err) {
		t.Errorf("a missing instance: got %v, want a NotFound", err)
	}
	w.status = map[string]any{"phase": "Materializing"}
	var early *client.NotServedError
	if _, err := w.instance(t, "web"); !errors.As(err, &early) || early.Phase != "Materializing" {
		t.Errorf("an instance without a data plane: got %v", err)
	}
	w.status = map[string]any{"phase": "Ready", "underlyingRefs": map[string]any{"sandboxGroupName": "preview"}}
	if _, err := w.instance(t, "web"); !errors.As(err, &early) || early.Group != "preview" || !strings.Contains(err.Error(), "has workloads and no verbs of its own: describe SandboxGroup preview") {
		t.Errorf("an instance with workloads: got %v", err)
	}
}
