// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client/object/objecttest"
)

// watched is a watch whose events a test reads one by one.
type watched struct {
	t      *testing.T
	events chan Event
	ended  chan error
}

func watchAll(t *testing.T, c *Client, opts ListOptions) *watched {
	t.Helper()
	k := sandboxesOf(t, c)
	list, err := c.List(t.Context(), k, opts)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{t, make(chan Event), make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		w.ended <- c.Watch(ctx, k, opts, list, func(e Event) error {
			select {
			case w.events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-w.ended
	})
	return w
}

// next returns the next event as text.
func (w *watched) next() string {
	w.t.Helper()
	select {
	case e := <-w.events:
		if e.Unstructured == nil {
			return string(e.Type)
		}
		return fmt.Sprintf("%s %s %v", e.Type, e.GetName(), e.Cells)
	case err := <-w.ended:
		w.ended <- err
		w.t.Fatalf("the watch ended: %v", err)
	case <-time.After(time.Minute):
		w.t.Fatal("no event")
	}
	return ""
}

func (w *watched) want(events ...string) {
	w.t.Helper()
	for _, want := range events {
		if got := w.next(); got != want {
			w.t.Fatalf("%s, want %s", got, want)
		}
	}
}

func TestAWatchSeesEachChangeOfSelectedObjects(t *testing.T) {
	server, c := newWorkspace(t)
	fill(server, 2)
	by, err := ParseSelector("even=yes")
	if err != nil {
		t.Fatal(err)
	}
	w := watchAll(t, c, ListOptions{Namespace: "default", Labels: by, Columns: true})
	server.Put("sandboxes", sandbox("new", map[string]any{"even": "yes"}))
	w.want("Added new [new Ready]")
	server.Put("sandboxes", sandbox("odd", map[string]any{"even": "no"}))
	server.Put("sandboxes", sandbox("new", map[string]any{"even": "yes", "more": "x"}))
	w.want("Modified new [new Ready]")
	// The label goes, and with it the object from the selection.
	server.Put("sandboxes", sandbox("new", nil))
	w.want("Deleted new [new Ready]")
	server.Remove("sandboxes", "default", "a-00")
	w.want("Deleted a-00 [a-00 Ready]")
}

// It takes the second that the retrying watcher waits at least.
func TestAWatchThatIsCutResumesFromWhereItWas(t *testing.T) {
	server, c := newWorkspace(t)
	w := watchAll(t, c, ListOptions{Namespace: "default"})
	server.Put("sandboxes", sandbox("a", nil))
	w.want("Added a []")
	server.CutWatches()
	server.Put("sandboxes", sandbox("b", nil))
	w.want("Added b []")
	server.Put("sandboxes", sandbox("a", map[string]any{"x": "y"}))
	w.want("Modified a []")
}

func TestAWatchThatTheServerForgotTellsTheGapAndTheDifferences(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		t.Run(fmt.Sprintf("with the answer to the request: %t", refuses), func(t *testing.T) {
			server, c := newWorkspace(t)
			fill(server, 3)
			first := true
			server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" || !first {
					return false
				}
				first = false // it is asked for the version of the list, and knows none before this one
				server.Put("sandboxes", sandbox("a-01", map[string]any{"even": "changed"}))
				server.Remove("sandboxes", "default", "a-02")
				server.Put("sandboxes", sandbox("new", nil))
				server.Forget()
				if refuses {
					objecttest.Refuse(rw, apierrors.NewResourceExpired("too old resource version"))
				}
				return refuses
			})
			w := watchAll(t, c, ListOptions{Namespace: "default", Columns: true})
			w.want("Gap", "Modified a-01 [a-01 Ready]", "Added new [new Ready]", "Deleted a-02 [a-02 Ready]")
			server.Put("sandboxes", sandbox("later", nil))
			w.want("Added later [later Ready]")
		})
	}
}

func TestAWatchThatIsRefusedEnds(t *testing.T) {
	server, c := newWorkspace(t)
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" {
			objecttest.Refuse(rw, apierrors.NewForbidden(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxes"}, "", errors.New("no right to watch")))
			return true
		}
		return false
	})
	k := sandboxesOf(t, c)
	list, err := c.List(t.Context(), k, ListOptions{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Watch(t.Context(), k, ListOptions{Namespace: "default"}, list, func(Event) error { return nil })
	if !apierrors.IsForbidden(err) {
		t.Errorf("%v", err)
	}
}

// Each try of a lost connection would be a line on a person's terminal.
func TestAWatchSaysOnceThatItsConnectionIsLostAndThereAgain(t *testing.T) {
	server, c := newWorkspace(t)
	tries := 0
	server.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		if tries++; tries > 2 {
			return false
		}
		objecttest.Refuse(rw, apierrors.NewServiceUnavailable("the shard is away"))
		return true
	})
	w := watchAll(t, c, ListOptions{Namespace: "default"})
	w.want("Interrupted", "Resumed")
	server.Put("sandboxes", sandbox("a", nil))
	w.want("Added a []")
}

func TestAnErrorOfTheCallerEndsAWatch(t *testing.T) {
	server, c := newWorkspace(t)
	k := sandboxesOf(t, c)
	list, err := c.List(t.Context(), k, ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server.Put("sandboxes", sandbox("a", nil))
	enough := errors.New("enough")
	if err := c.Watch(t.Context(), k, ListOptions{}, list, func(Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}
