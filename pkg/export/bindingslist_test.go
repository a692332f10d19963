// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// bindingOf is an APIBinding of the name that all workspaces have by default.
func bindingOf(cluster string) string {
	return fmt.Sprintf(`{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "sandbar.dev", "resourceVersion": "1",
		"annotations": {"kcp.io/cluster": %[1]q, "kcp.io/path": "root:%[1]s"}}, "spec": {"reference": {"export": {"name": "sandbar.dev"}}}, "status": {"phase": "Bound"}}`, cluster)
}

// TestBindingsOfOneNameAreKnownFromTheStart: at the start of a process all workspaces are known, though their bindings are called the same.
// The server streams a list to a client that asks for it, as kcp does.
func TestBindingsOfOneNameAreKnownFromTheStart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		all := []string{bindingOf("alice"), bindingOf("bob"), bindingOf("carol")}
		q := r.URL.Query()
		if q.Get("watch") == "" {
			fmt.Fprintf(w, `{"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBindingList", "metadata": {"resourceVersion": "1"}, "items": [%s, %s, %s]}`, all[0], all[1], all[2])
			return
		}
		if q.Get("sendInitialEvents") == "true" {
			for _, one := range all {
				fmt.Fprintf(w, "{\"type\": \"ADDED\", \"object\": %s}\n", one)
			}
			fmt.Fprint(w, `{"type": "BOOKMARK", "object": {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}`+"\n")
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	bindings, err := NewBindings(&rest.Config{Host: server.URL}, server.Client(), "sandbar.dev", Claim{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	bindings.mu.Lock()
	err = bindings.watchLocked(ctx, server.URL)
	bindings.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for !bindings.index.complete([]string{server.URL}) {
		select {
		case <-t.Context().Done():
			t.Fatal("nothing was listed")
		case <-time.After(time.Millisecond):
		}
	}
	for _, cluster := range []string{"alice", "bob", "carol"} {
		if got, ok := bindings.Find("root:" + cluster); !ok || got.Cluster != cluster {
			t.Errorf("the binding of %s is %+v", cluster, got)
		}
	}
	stop()
	bindings.wg.Wait()
}
