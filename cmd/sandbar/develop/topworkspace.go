// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	objectcmd "github.com/sandbar-dev/sandbar/cmd/sandbar/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/top"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// Pauses before a kind that could not be watched is listed again: the first, doubled each time up to the longest.
const (
	firstTopRetry   = time.Second
	longestTopRetry = 30 * time.Second
)

// topWorkspace fills the view of sandbar top with the workspace's sandboxes, and does what its keys ask for.
type topWorkspace struct {
	// target has the flags of the command.
	target             target
	address, namespace string
	objects            *object.Client
	data               *client.Client
	feed               *top.Feed
	options            object.ListOptions
	kinds              map[string]object.Kind // by the resource of rows
}

// resourceOf is the resource of a kind as --resource takes it.
func resourceOf(k object.Kind) string {
	if k.Resource.Version == client.SandboxRunners.Version {
		return k.Resource.GroupResource().String()
	}
	return k.Resource.Resource + "." + k.Resource.Version + "." + k.Resource.Group
}

// errNotInstances means that a kind is not one of sandboxes.
var errNotInstances = errors.New("the kind has no instances")

// follow keeps the view's list of a kind up to date until the context ends.
func (w *topWorkspace) follow(ctx context.Context, k object.Kind) {
	if !slices.Contains(k.Verbs, "list") || !slices.Contains(k.Verbs, "watch") {
		return
	}
	for wait := firstTopRetry; ; wait = min(2*wait, longestTopRetry) {
		began := time.Now()
		err := w.watch(ctx, k)
		if ctx.Err() != nil || errors.Is(err, errNotInstances) {
			return
		}
		reason := "the server ended the watch"
		if err != nil {
			reason = cli.ReasonIn(err)
		}
		w.feed.Interrupt(resourceOf(k), reason)
		if time.Since(began) > longestTopRetry {
			wait = firstTopRetry
		}
		if pause.For(ctx, wait) != nil {
			return
		}
	}
}

// watch lists a kind, and then hands each change to the view.
func (w *topWorkspace) watch(ctx context.Context, k object.Kind) error {
	list, err := w.objects.List(ctx, k, w.options)
	if err != nil {
		return err
	}
	if !object.IsInstance(list.Columns) {
		return errNotInstances
	}
	rows := make([]top.Row, 0, len(list.Items))
	for _, item := range list.Items {
		rows = append(rows, rowOf(k, item.Unstructured))
	}
	w.feed.List(resourceOf(k), rows)
	return w.objects.Watch(ctx, k, w.options, list, func(e object.Event) error {
		switch e.Type {
		case object.Interrupted:
			w.feed.Interrupt(resourceOf(k), cli.ReasonIn(e.Err))
		case object.Resumed:
			w.feed.Resume(resourceOf(k))
		case object.Deleted:
			w.feed.Remove(rowOf(k, e.Unstructured))
		case object.Added, object.Modified:
			w.feed.Change(rowOf(k, e.Unstructured))
		case object.Gap: // the differences follow
		}
		return nil
	})
}

// rowOf is an object as sandbar top shows it, with what the table of sandbar get shows.
func rowOf(k object.Kind, obj *unstructured.Unstructured) top.Row {
	used, _ := objectcmd.TimeAt(obj, "status", "activity", "lastActiveTime")
	end, _ := objectcmd.TimeAt(obj, "spec", "lifecycle", "shutdownTime")
	start, _, _ := unstructured.NestedString(obj.Object, "status", "start", "type")
	return top.Row{
		Resource: resourceOf(k), Kind: k.Singular, Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()),
		Template: objectcmd.TemplateOf(obj), State: objectcmd.StateOf(obj, false), Start: start, Reason: object.StateOf(obj),
		Created: obj.GetCreationTimestamp().Time, Used: used, Shutdown: end,
	}
}

// of is the command's target with a row as its instance.
func (w *topWorkspace) of(row top.Row) *target {
	t := *w.target.Target
	t.Resource, t.Name, t.UID = row.Resource, row.Name, row.UID
	t.Overrides.Context.Namespace = row.Namespace
	return &target{&t}
}

// instance finds the instance of a row, with the way to its data plane.
func (w *topWorkspace) instance(ctx context.Context, row top.Row) (*client.Instance, error) {
	return w.data.Instance(ctx, w.kinds[row.Resource].Resource, row.Namespace, row.Name)
}

// inWords is an error as a person reads it, with what the workspace knows of its reason.
func (w *topWorkspace) inWords(ctx context.Context, row top.Row, err error) error {
	if text := w.of(row).Diagnose(ctx, []string{row.Name}, err); text != "" {
		return errors.New(text)
	}
	return errors.New(cli.Explain(err))
}
