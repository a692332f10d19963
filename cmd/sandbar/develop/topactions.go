// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"bytes"
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	objectcmd "github.com/sandbar-dev/sandbar/cmd/sandbar/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/top"
)

// Do implements top.Actions.
func (w *topWorkspace) Do(ctx context.Context, action top.Action, row top.Row) (string, error) {
	text, err := w.do(ctx, action, row)
	if err != nil {
		return "", w.inWords(ctx, row, err)
	}
	return text, nil
}

func (w *topWorkspace) do(ctx context.Context, action top.Action, row top.Row) (string, error) {
	switch action {
	case top.Suspend, top.Resume:
		k, err := w.of(row).Kind()
		if err != nil {
			return "", err
		}
		_, changed, err := objectcmd.SetSuspended(ctx, k, row.Name, action == top.Suspend, "")
		return row.Name + " " + objectcmd.OutcomeOf(action == top.Suspend, changed, ""), err
	case top.Delete:
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetName(row.Name)
		obj.SetNamespace(row.Namespace)
		obj.SetUID(types.UID(row.UID))
		err := w.objects.Delete(ctx, w.kinds[row.Resource], obj, object.WriteOptions{})
		return row.Name + " is being deleted", err
	case top.Restart, top.Renew, top.Extend, top.Open:
		return w.call(ctx, action, row)
	}
	return "", fmt.Errorf("there is no action %d", action)
}

// call carries an action out that is a verb of the data plane.
func (w *topWorkspace) call(ctx context.Context, action top.Action, row top.Row) (string, error) {
	if action == top.Extend && row.Shutdown.IsZero() {
		return row.Name + " has no shutdown time, so it does not end by itself and there is nothing to move", nil
	}
	i, err := w.instance(ctx, row)
	if err != nil {
		return "", err
	}
	switch action {
	case top.Restart:
		return row.Name + " has been restarted", i.Restart(ctx)
	case top.Open:
		preview, err := i.Preview(ctx, client.PreviewOptions{Path: "/"})
		if err != nil {
			return "", err
		}
		if err := cli.Browse(ctx, preview.URL); err != nil {
			return "", fmt.Errorf("%w; open it yourself: %s", err, preview.URL)
		}
		return fmt.Sprintf("%s is shown until %s: %s", row.Name, preview.SessionExpires.Local().Format(time.TimeOnly), preview.URL), nil
	default: // Renew and Extend
		var opts client.RenewOptions
		if action == top.Extend {
			opts.Extend = top.Extension
		}
		renewal, err := i.Renew(ctx, opts)
		if err != nil {
			return "", err
		}
		return row.Name + " " + objectcmd.Renewed(renewal), nil
	}
}

// Describe implements top.Actions with the text of sandbar describe.
func (w *topWorkspace) Describe(ctx context.Context, row top.Row) (string, error) {
	k := w.kinds[row.Resource]
	d, err := w.objects.Describe(ctx, k, row.Namespace, row.Name)
	if err != nil {
		return "", w.inWords(ctx, row, err)
	}
	var text bytes.Buffer
	objectcmd.Describe(&text, k, d, time.Now())
	return text.String(), nil
}

// Logs implements top.Actions. Of an instance whose components have the logs it reads them all, each line with the name
// of its component.
func (w *topWorkspace) Logs(ctx context.Context, row top.Row, send func(text []byte, note bool)) error {
	i, err := w.instance(ctx, row)
	if err != nil {
		return w.inWords(ctx, row, err)
	}
	components := i.ComponentsWith("log")
	if i.Has("log") || len(components) == 0 {
		components = []string{""} // the instance's own; of one without a log the data plane says why
	}
	reading, ctx := errgroup.WithContext(ctx)
	for _, component := range components {
		reading.Go(func() error { return readTopLog(ctx, i.Component(component), component, !row.Asleep(), send) })
	}
	if err := reading.Wait(); err != nil {
		return w.inWords(ctx, row, err)
	}
	return nil
}

func readTopLog(ctx context.Context, i *client.Instance, component string, follow bool, send func([]byte, bool)) error {
	tail := top.LogLines
	p := newLogPrinter(sendWriter{send, false}, sendWriter{send, true}, false, false)
	if component != "" {
		p.out = &linePrefix{out: p.out, prefix: component + " | ", terminal: true}
		p.terminal = true // of a line that begins again the last beginning counts, behind the prefix
	}
	for e, err := range i.Logs(ctx, client.LogOptions{Follow: follow, Tail: &tail, Wait: true}) {
		if err != nil {
			return err
		}
		if err := p.print(e); err != nil {
			return err
		}
	}
	return nil
}

// sendWriter writes to a pane of the view.
type sendWriter struct {
	send func(text []byte, note bool)
	note bool
}

// Write implements io.Writer.
func (w sendWriter) Write(text []byte) (int, error) {
	w.send(text, w.note)
	return len(text), nil
}

// Shell implements top.Actions with sandbar exec, in a process of its own: a read of the keyboard that waits when a
// command ends would take the next key from the view.
func (w *topWorkspace) Shell(ctx context.Context, row top.Row) tea.ExecCommand {
	return newShellProgram(ctx, w.target.shellArgs(row))
}
