// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	objectcmd "github.com/sandbar-dev/sandbar/cmd/sandbar/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/top"
)

func newTopCommand(s *target) *cobra.Command {
	var o objectcmd.Selection
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Follow all your sandboxes on a full screen, with logs in a pane and actions on keys",
		Long: `Show the sandboxes of every kind that your workspace has on a full screen, grouped by their state, and follow
what happens to them. The columns are those of sandbar get, with the kind, and START says whether a sandbox started
warm or cold.

/ filters as you type, l follows the log of the chosen sandbox in a pane, d describes it, and other keys suspend,
resume, restart, renew, open or delete it, or give you a shell in it. ? lists the keys, and q leaves. Following a log
counts as use: a sandbox whose log is open does not go to sleep. When the connection is lost, the line above the keys says so,
and the list goes on when it is there again.

It needs a terminal. Scripts use sandbar get KIND, and sandbar get KIND -w to follow. NO_COLOR turns colours off.`,
		Example: `  sandbar top
  sandbar top -A
  sandbar top -l env=prod`,
		Args: cli.Named(),
		RunE: func(cmd *cobra.Command, _ []string) error { return s.top(cmd, &o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func (s *target) top(cmd *cobra.Command, o *objectcmd.Selection) error {
	if err := o.Check(nil); err != nil {
		return err
	}
	if cmd.Flags().Changed("resource") || cmd.Flags().Changed("component") {
		return &cli.UsageError{Err: errors.New("top shows all kinds, and takes neither --resource nor --component: leave them out, and filter with / or -l")}
	}
	keyboard, screen, err := screenOf(cmd)
	if err != nil {
		return err
	}
	w, kinds, err := s.topOf(cmd.Context(), o)
	if err != nil {
		return err
	}
	defer w.data.Close()
	ctx, cancel := context.WithCancel(cmd.Context())
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	defer onSignal(ctx, func(os.Signal) { cancel() }, syscall.SIGHUP)()
	for _, k := range kinds {
		watches.Go(func() { w.follow(ctx, k) })
	}
	model := top.New(ctx, top.Options{
		Feed: w.feed, Actions: w, Place: w.place(o), Namespaces: o.AllNamespaces, Colours: os.Getenv("NO_COLOR") == "",
	})
	program := tea.NewProgram(model, tea.WithContext(ctx), tea.WithInput(keyboard), tea.WithOutput(screen), tea.WithoutSignalHandler())
	_, err = program.Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted), ctx.Err() != nil:
		return &cli.ExitError{Code: cli.ExitInterrupted}
	case err != nil:
		return fmt.Errorf("drawing on the terminal: %w", err)
	}
	return nil
}

// topOf connects to the workspace and finds its kinds.
func (s *target) topOf(ctx context.Context, o *objectcmd.Selection) (*topWorkspace, object.Kinds, error) {
	cfg, namespace, err := s.Workspace()
	if err != nil {
		return nil, nil, err
	}
	cfg.WarningHandler = rest.NoWarnings{} // they would be drawn over the screen
	objects, err := object.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	kinds, err := objects.Kinds(ctx)
	if err != nil {
		return nil, nil, err
	}
	session, err := s.Open()
	if err != nil {
		return nil, nil, err
	}
	data, err := session.Client()
	if err != nil {
		return nil, nil, err
	}
	w := &topWorkspace{
		target: *s, address: cfg.Host, namespace: namespace, objects: objects, data: data,
		feed: top.NewFeed(), options: o.Options(namespace), kinds: map[string]object.Kind{},
	}
	w.options.Columns = true
	for _, k := range kinds {
		w.kinds[resourceOf(k)] = k
	}
	return w, kinds, nil
}

// screenOf returns the terminal that a full screen is drawn on, and the keyboard; or what to use instead.
func screenOf(cmd *cobra.Command) (keyboard, screen *os.File, err error) {
	const instead = "use sandbar get KIND for a list, and sandbar get KIND -w to follow changes"
	keyboard, hasKeys := cmd.InOrStdin().(*os.File)
	screen, hasScreen := cmd.OutOrStdout().(*os.File)
	switch {
	case !hasKeys || !hasScreen || !cli.IsTerminal(keyboard) || !cli.IsTerminal(screen):
		return nil, nil, &cli.UsageError{Err: errors.New("top draws on a terminal, and stdin or stdout is none: " + instead)}
	case os.Getenv("TERM") == "dumb":
		return nil, nil, &cli.UsageError{Err: errors.New("top draws on a terminal, and TERM says that this one cannot move its cursor (dumb): " + instead)}
	}
	return keyboard, screen, nil
}

// place names the workspace and what is selected of it.
func (w *topWorkspace) place(o *objectcmd.Selection) string {
	_, workspace, _ := strings.Cut(w.address, "/clusters/")
	if workspace = strings.TrimRight(workspace, "/"); workspace == "" {
		workspace = w.address
	}
	parts := []string{workspace, "namespace " + w.namespace}
	if o.AllNamespaces {
		parts[1] = "all namespaces"
	}
	for _, selector := range []string{o.Labels, o.Fields} {
		if selector != "" {
			parts = append(parts, selector)
		}
	}
	return strings.Join(parts, "  ")
}
