// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// printLogs prints the log of an instance, or those of several components beside each other. Why one of those cannot be read is
// told at once, the others go on, and in the end it fails.
func printLogs(ctx context.Context, cmd *cobra.Command, components map[string]*client.Instance, opts client.LogOptions, asJSON bool) error {
	if one, ok := components[""]; ok {
		return printLog(ctx, one, newLogPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, opts.Timestamps), opts)
	}
	out, notes := &lockedWriter{w: cmd.OutOrStdout()}, &lockedWriter{w: cmd.ErrOrStderr()}
	var (
		reading sync.WaitGroup
		mu      sync.Mutex
		unread  []string
	)
	for name, i := range components {
		p := newLogPrinter(cmd.OutOrStdout(), cmd.ErrOrStderr(), asJSON, opts.Timestamps)
		p.of(name, out, notes)
		reading.Go(func() {
			if err := printLog(ctx, i, p, opts); err != nil && ctx.Err() == nil {
				cli.Say(p.notes, "%s", cli.ReasonIn(err))
				mu.Lock()
				defer mu.Unlock()
				unread = append(unread, name)
			}
		})
	}
	reading.Wait()
	if len(unread) == 0 {
		return ctx.Err() //nolint:wrapcheck // the caller knows why it ended
	}
	slices.Sort(unread)
	return fmt.Errorf("the logs of these components could not be read: %s", termsafe.Line(strings.Join(unread, ", ")))
}

func printLog(ctx context.Context, i *client.Instance, p *logPrinter, opts client.LogOptions) error {
	for e, err := range i.Logs(ctx, opts) {
		if err != nil {
			return err
		}
		if err := p.print(e); err != nil {
			return err
		}
	}
	return p.finish()
}

// lockedWriter is written to by several at once, a line after the other.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(text) //nolint:wrapcheck // a writer's own
}
