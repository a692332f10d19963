// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/klog/v2"
)

// EventType is what happened to an object that is watched.
type EventType string

// Types of events.
const (
	Added    EventType = "Added"
	Modified EventType = "Modified"
	Deleted  EventType = "Deleted"
	// Gap means that the server has forgotten what happened since the last event. The events that follow make up
	// for it: all differences between then and now, but not the steps in between.
	Gap EventType = "Gap"
	// Interrupted means that the watch has lost its connection, with the reason in Err. It resumes by itself.
	Interrupted EventType = "Interrupted"
	// Resumed means that an interrupted watch has its connection again.
	Resumed EventType = "Resumed"
)

// Event is what happened to an object that is watched.
type Event struct {
	Type EventType
	Item
	// Columns are those of Item's Cells.
	Columns []metav1.TableColumnDefinition
	// Err is why a watch was interrupted.
	Err error
}

// Watch calls on for each change of the objects that the options select, from what a list of them had, until the
// context ends, on returns an error, or the server refuses to go on. It resumes from the last version that it has
// seen, and lists again when the server does not have that any more.
func (c *Client) Watch(ctx context.Context, k Kind, opts ListOptions, from *List, on func(Event) error) error {
	opts.Limit = 0
	w := &watcher{client: c, kind: k, opts: opts, on: on, known: map[types.UID]Item{}, columns: from.Columns}
	for _, item := range from.Items {
		w.known[item.GetUID()] = item
	}
	version := from.ResourceVersion
	for {
		err := w.follow(ctx, version)
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		if err := on(Event{Type: Gap}); err != nil {
			return err
		}
		if version, err = w.catchUp(ctx); err != nil {
			return err
		}
	}
}

// watcher follows the objects of one call of Watch.
type watcher struct {
	client  *Client
	kind    Kind
	opts    ListOptions
	on      func(Event) error
	known   map[types.UID]Item
	columns []metav1.TableColumnDefinition
}

// follow watches from a version on. It returns nil when the context ends.
func (w *watcher) follow(ctx context.Context, version string) error {
	// The retrying watcher logs each failure; the events of type Interrupted say it instead.
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	defer cancel()
	lost := make(chan error)
	requests := &watchRequests{watcher: w, lost: func(err error) {
		select {
		case lost <- err:
		case <-ctx.Done():
		}
	}}
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, version, requests)
	if err != nil {
		return fmt.Errorf("watching %s: %w", w.kind.Resource.Resource, err)
	}
	defer events.Stop()
	interrupted := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			if interrupted == (err != nil) {
				continue // said once, and not with every try
			}
			interrupted = err != nil
			event := Event{Type: Resumed}
			if interrupted {
				event = Event{Type: Interrupted, Err: err}
			}
			if err := w.on(event); err != nil {
				return err
			}
		case event, ok := <-events.ResultChan():
			if !ok {
				return ctx.Err() // the watcher has no other reason to end
			}
			if err := w.handle(event); err != nil {
				return err
			}
		}
	}
}

// handle hands an event of the server on.
func (w *watcher) handle(event watch.Event) error {
	if event.Type == watch.Error {
		return fmt.Errorf("watching %s: %w", w.kind.Resource.Resource, apierrors.FromObject(event.Object))
	}
	item, err := w.item(event)
	if err != nil {
		return err
	}
	if event.Type == watch.Deleted {
		delete(w.known, item.GetUID())
	} else {
		w.known[item.GetUID()] = item
	}
	return w.on(Event{Type: eventTypes[event.Type], Item: item, Columns: w.columns})
}

var eventTypes = map[watch.EventType]EventType{watch.Added: Added, watch.Modified: Modified, watch.Deleted: Deleted}

// item reads the object of an event, which is in a table of one row if columns were asked for.
func (w *watcher) item(event watch.Event) (Item, error) {
	obj, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return Item{}, fmt.Errorf("watching %s: the server sent a %T", w.kind.Resource.Resource, event.Object)
	}
	if obj.GetKind() != "Table" {
		return Item{Unstructured: obj}, nil
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return Item{}, fmt.Errorf("watching %s: %w", w.kind.Resource.Resource, err)
	}
	p, err := readTable(body)
	if err != nil {
		return Item{}, fmt.Errorf("watching %s: %w", w.kind.Resource.Resource, err)
	}
	if len(p.Items) != 1 {
		return Item{}, fmt.Errorf("watching %s: the server sent a table of %d rows for one object", w.kind.Resource.Resource, len(p.Items))
	}
	if len(p.Columns) > 0 { // only the first event of a connection has them
		w.columns = p.Columns
	}
	return p.Items[0], nil
}

// catchUp lists the objects after a gap, hands the differences on, and returns the version to watch from.
func (w *watcher) catchUp(ctx context.Context) (version string, err error) {
	list, err := w.client.List(ctx, w.kind, w.opts)
	if err != nil {
		return "", err
	}
	gone := w.known
	w.known = map[types.UID]Item{}
	for _, item := range list.Items {
		before, known := gone[item.GetUID()]
		delete(gone, item.GetUID())
		w.known[item.GetUID()] = item
		event := Event{Type: Modified, Item: item, Columns: list.Columns}
		if !known {
			event.Type = Added
		} else if before.GetResourceVersion() == item.GetResourceVersion() {
			continue
		}
		if err := w.on(event); err != nil {
			return "", err
		}
	}
	for _, item := range gone {
		if err := w.on(Event{Type: Deleted, Item: item, Columns: w.columns}); err != nil {
			return "", err
		}
	}
	return list.ResourceVersion, nil
}

// watchRequests makes the requests of the retrying watcher, one after the other.
type watchRequests struct {
	*watcher
	// lost gets why a request failed, and nil when one succeeds after that.
	lost  func(error)
	again bool
}

// WatchWithContext implements cache.WatcherWithContext.
func (w *watchRequests) WatchWithContext(ctx context.Context, request metav1.ListOptions) (watch.Interface, error) {
	selected := w.opts.request()
	request.LabelSelector, request.FieldSelector, request.Watch = selected.LabelSelector, selected.FieldSelector, true
	var events watch.Interface
	var err error
	if w.opts.Columns {
		events, err = w.client.request(w.kind, w.opts.Namespace).
			SpecificallyVersionedParams(&request, parameters, parametersVersion).Watch(ctx)
	} else {
		events, err = w.client.of(w.kind, w.opts.Namespace).Watch(ctx, request)
	}
	switch status := apierrors.APIStatus(nil); {
	case err == nil && w.again:
		w.again = false
		w.lost(nil)
	case err == nil, ctx.Err() != nil, apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
	case (apierrors.IsGone(err) || apierrors.IsResourceExpired(err)) && errors.As(err, &status):
		// The retrying watcher knows this as an event alone, and would try again for ever.
		gone := status.Status()
		event := make(chan watch.Event, 1)
		event <- watch.Event{Type: watch.Error, Object: &gone}
		return watch.NewProxyWatcher(event), nil
	default:
		w.again = true
		w.lost(err)
	}
	return events, err
}
