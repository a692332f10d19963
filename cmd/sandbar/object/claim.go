// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// MostClaims is how many Sandboxes one call asks for at most, as a SandboxClaim.
	MostClaims = 100
	// ClaimsAtOnce is how many of them are asked for at the same time.
	ClaimsAtOnce = 8
	// claimWait is for how long each is waited for without --wait, and longestClaimWait the longest.
	claimWait        = 30 * time.Second
	longestClaimWait = 5 * time.Minute
)

// The values of --prewarm and --resize; without them, kcp takes Prefer and Require.
var (
	prewarms = []string{"", "Prefer", "Require", "None"}
	resizes  = []string{"", "Require", "BestEffort", "Keep"}
)

// claimOptions are the flags of sandbar claim.
type claimOptions struct {
	client.ClaimOptions
	labels, annotations []string
	env, envFrom        []string
	wait                time.Duration
	replicas            int
	output              string
	asJSON              bool
}

func newClaimCommand(s *target) *cobra.Command {
	var o claimOptions
	cmd := &cobra.Command{
		Use:   "claim TEMPLATE",
		Short: "Get a Sandbox of a SandboxTemplate, warm if a SandboxSet has one ready",
		Long: `Create a Sandbox of a SandboxTemplate with one call to the data plane, which waits until it is Ready. The name goes
to stdout, and how it started to stderr; -o json prints one object for each instead.

It exits with 1 if a Sandbox is not Ready within --wait: the Sandbox stays, and goes on starting. --replicas asks for
several, each by itself; for all of them or none, create a SandboxClaim. With --key a call can be repeated: within a
day, the same call has the same Sandboxes.

The provider's data plane answers, so it has to be trusted: sandbar trust.`,
		Example: `  sandbar exec sandbox/$(sandbar claim shell) -- hostname
  sandbar claim shell --label run=a --replicas 5 --wait 1m
  sandbar claim shell --key build-4711 -o json`,
		Args: cli.Named("TEMPLATE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			w, err := s.Open()
			if err != nil {
				return err
			}
			err = o.claimAll(cmd, w, args[0])
			if text := s.DeniedBy(err); text != "" {
				return &cli.DiagnosedError{Text: text, Err: err}
			}
			return err
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cli.NoFiles
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTimeout)
			defer cancel()
			return s.Names(ctx, "sandboxtemplates", word, nil), cli.NoFiles
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Name, "name", "", "name of the Sandbox; without it, one is made of the template's")
	fs.StringArrayVar(&o.labels, "label", nil, "label KEY=VALUE of the Sandbox; can be repeated")
	fs.StringArrayVar(&o.annotations, "annotation", nil, "annotation KEY=VALUE of the Sandbox; can be repeated")
	fs.StringVar(&o.Prewarm, "prewarm", "", "Prefer: warm if it can be; Require: warm or not at all; None: cold")
	fs.StringVar(&o.Resize, "resize", "", "a warm one with other resources than its template's gets those (Require), gets them if it can (BestEffort), or keeps its own (Keep)")
	fs.StringArrayVar(&o.env, "env", nil, "variable NAME=VALUE of the Sandbox; can be repeated. Others on this machine may see it: put secrets into a Secret")
	fs.StringArrayVar(&o.envFrom, "env-from", nil, "Secret of the namespace, with the label sandbar.dev/share=true, whose keys are variables of the Sandbox; can be repeated")
	fs.DurationVar(&o.wait, "wait", claimWait, "how long to wait for each until it is Ready, at most 5m; 0s: not at all")
	fs.IntVar(&o.replicas, "replicas", 1, fmt.Sprintf("how many Sandboxes, at most %d", MostClaims))
	fs.StringVar(&o.Key, "key", "", "idempotency key of the call")
	cli.AddOutputFlag(cmd, &o.output)
	return cmd
}

// check reads the flags, before anything is sent.
func (o *claimOptions) check() error {
	pairs, err := parsePairs("--label", object.Labels, o.labels, false)
	if err != nil {
		return err
	}
	o.Labels = pairs.Set
	if pairs, err = parsePairs("--annotation", object.Annotations, o.annotations, false); err != nil {
		return err
	}
	o.Annotations = pairs.Set
	for _, pair := range o.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return &cli.UsageError{Err: errors.New("--env wants NAME=VALUE")} // not what was given: it may be a secret
		}
		o.Env = append(o.Env, sandbarv1alpha1.SandboxEnv{Name: name, Value: value})
	}
	for _, name := range o.envFrom {
		o.EnvFrom = append(o.EnvFrom, sandbarv1alpha1.SandboxEnvFrom{SecretRef: sandbarv1alpha1.SandboxSecretRef{Name: name}})
	}
	switch {
	case o.replicas < 1 || o.replicas > MostClaims:
		return &cli.UsageError{Err: fmt.Errorf("--replicas %d: a call asks for 1 to %d Sandboxes", o.replicas, MostClaims)}
	case o.replicas > 1 && o.Name != "":
		return &cli.UsageError{Err: errors.New("--name and --replicas do not go together: several Sandboxes have names that are made")}
	case !slices.Contains(prewarms, o.Prewarm):
		return &cli.UsageError{Err: fmt.Errorf("--prewarm %q is none of Prefer, Require and None", o.Prewarm)}
	case !slices.Contains(resizes, o.Resize):
		return &cli.UsageError{Err: fmt.Errorf("--resize %q is none of Require, BestEffort and Keep", o.Resize)}
	case o.wait < 0 || o.wait > longestClaimWait:
		return &cli.UsageError{Err: fmt.Errorf("--wait %s: the data plane waits from 0s to %s; sandbar wait waits longer", o.wait, longestClaimWait)}
	}
	o.Wait = &o.wait
	o.asJSON, err = cli.JSONOutput(o.output)
	return err
}

// claimAll claims all Sandboxes, and prints each as it comes. One that fails leaves the others alone.
func (o *claimOptions) claimAll(cmd *cobra.Command, w session.Workspace, template string) error {
	var mu sync.Mutex
	var failures []error
	var group errgroup.Group
	group.SetLimit(ClaimsAtOnce)
	for i := range o.replicas {
		opts := o.ClaimOptions
		if opts.Key != "" && o.replicas > 1 {
			opts.Key = fmt.Sprintf("%s-%d", opts.Key, i)
		}
		group.Go(func() error {
			began := time.Now()
			claimed, err := w.Claim(cmd.Context(), template, opts)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = o.print(cmd, claimed, time.Since(began))
			}
			if err != nil {
				failures = append(failures, err)
			}
			return nil
		})
	}
	_ = group.Wait() // failures has what failed
	if len(failures) > 1 {
		return fmt.Errorf("%d of %d Sandboxes are not Ready, the first because: %w", len(failures), o.replicas, failures[0])
	}
	return errors.Join(failures...)
}

// claimedRow is a Sandbox for programs.
type claimedRow struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	Ready     bool   `json:"ready"`
	Phase     string `json:"phase,omitempty"`
	Start     string `json:"start,omitempty"`
	Reason    string `json:"reason,omitempty"`
	URL       string `json:"url,omitempty"`
	Message   string `json:"message,omitempty"`
}

// print prints a Sandbox; one that is not Ready is an error, with the data plane's words.
func (o *claimOptions) print(cmd *cobra.Command, c *client.Claimed, took time.Duration) error {
	row := claimedRow{Name: c.Name, Namespace: c.Namespace, UID: c.UID, Ready: c.Ready, Phase: c.Phase, URL: c.URL, Message: c.Message}
	if c.Start != nil {
		row.Start, row.Reason = c.Start.Type, c.Start.Reason
	}
	var err error
	if o.asJSON {
		err = json.NewEncoder(cmd.OutOrStdout()).Encode(row)
	} else {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), termsafe.Line(c.Name))
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing: %w", err)
	case !c.Ready:
		return errors.New(c.Message)
	}
	cli.Say(cmd.ErrOrStderr(), "%s is Ready%s after %s", termsafe.Line(c.Name), termsafe.Line(startedAs(row)), took.Round(time.Millisecond))
	return nil
}

// startedAs says how a Sandbox started.
func startedAs(row claimedRow) string {
	switch {
	case row.Start == "":
		return ""
	case row.Reason == "":
		return ", " + strings.ToLower(row.Start)
	}
	return fmt.Sprintf(", %s (%s)", strings.ToLower(row.Start), row.Reason)
}
