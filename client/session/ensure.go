// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

const (
	// DefaultTimeout is how long Ensure waits unless the options say otherwise.
	DefaultTimeout = 5 * time.Minute
	// readyEvery is how often an instance that is not ready is looked at.
	readyEvery = 500 * time.Millisecond
)

// Toolchains are the languages of a SandboxRunner's Template; a test compares them.
var Toolchains = []string{"node", "python", "go"}

// EnsureOptions say what [Workspace.Ensure] creates, and how long it waits.
type EnsureOptions struct {
	// Dir is the project's directory, which a new SandboxRunner is labelled with; it has to exist.
	Dir string
	// StartCommand is what a new SandboxRunner runs, and Toolchain its language, one of Toolchains. The
	// Template's default holds where they are empty. If one exists that has something else, that is a
	// [UsageError].
	StartCommand, Toolchain string
	// Timeout bounds the whole wait; 0 is DefaultTimeout.
	Timeout time.Duration
}

// Check reports whether a SandboxRunner would be created in vain: a [UsageError], or a directory that cannot be
// opened. Ensure checks too; a front end calls it before it needs the workspace.
func (o EnsureOptions) Check() error {
	if o.Timeout < 0 {
		return usage("a timeout of %s leaves no time to wait", o.Timeout)
	}
	if o.Toolchain != "" && !slices.Contains(Toolchains, o.Toolchain) {
		return usage("the toolchain %q does not exist: there are %s", o.Toolchain, strings.Join(Toolchains, ", "))
	}
	dir, err := os.OpenRoot(o.Dir)
	if err != nil {
		return fmt.Errorf("opening the directory: %w", err)
	}
	_ = dir.Close()
	return nil
}

// Created is the [Note] that Ensure has created a SandboxRunner.
type Created struct{ Name string }

// Resumed is the [Note] that Ensure resumes a SandboxRunner, which was suspended.
type Resumed struct{ Name string }

func (Created) isNote() {}
func (Resumed) isNote() {}

// Ensure creates the SandboxRunner of a name, or resumes it if it is suspended, and waits until it can be
// developed: until it is Ready, or its runner takes calls although its process does not stay up. Before it creates
// or changes anything, the data plane has to be trusted, as with [Workspace.TrustFor]. It sends the notes [Trusted],
// [Created], [Resumed] and [StateChanged].
//
// It fails with the errors of Check and TrustFor, with those of k8s.io/apimachinery/pkg/api/errors that the
// workspace gives, with [context.DeadlineExceeded] after the timeout, and at once if there is no image for the
// toolchain. What was created stays then: another call goes on with it.
func (w Workspace) Ensure(ctx context.Context, name string, opts EnsureOptions) error {
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if err := opts.Check(); err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(w.Config)
	if err != nil {
		return fmt.Errorf("making a client for the workspace: %w", err)
	}
	if err := w.TrustFor(ctx, client.SandboxRunners.GroupResource()); err != nil {
		return err
	}
	runners := objects.Resource(client.SandboxRunners).Namespace(w.Namespace)
	obj, err := runners.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		if obj, err = newRunner(name, opts); err != nil {
			return err
		}
		client.NewSigner(w.Config).Sign(ctx, obj)
		if _, err := runners.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the SandboxRunner: %w", err)
		}
		w.Notes.send(Created{name})
	case err != nil:
		return fmt.Errorf("reading the SandboxRunner: %w", err)
	default:
		if err := opts.fits(obj); err != nil {
			return err
		}
		if suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended"); suspended {
			patch := []byte(`{"spec":{"suspended":false}}`)
			if _, err := runners.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("resuming the SandboxRunner: %w", err)
			}
			w.Notes.send(Resumed{name})
		}
	}
	return w.awaitRunner(ctx, runners, name, opts.Timeout)
}

// fits refuses options that a SandboxRunner which exists was not created with: to pass over them would be to run
// something else than what was asked for.
func (o EnsureOptions) fits(obj *unstructured.Unstructured) error {
	for _, c := range []struct{ field, want string }{{"startCommand", o.StartCommand}, {"toolchain", o.Toolchain}} {
		has, _, _ := unstructured.NestedString(obj.Object, "spec", c.field)
		if c.want == "" || c.want == has {
			continue
		}
		if has == "" {
			return usage("SandboxRunner %s exists and has no spec.%s: set it there to %q, or use another name", obj.GetName(), c.field, c.want)
		}
		return usage("SandboxRunner %s exists and its spec.%s is %q: change it there to %q, or use another name", obj.GetName(), c.field, has, c.want)
	}
	return nil
}

func newRunner(name string, opts EnsureOptions) (*unstructured.Unstructured, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("naming the project: %w", err)
	}
	spec := map[string]any{"projectRef": filepath.Base(dir)}
	if opts.StartCommand != "" {
		spec["startCommand"] = opts.StartCommand
	}
	if opts.Toolchain != "" {
		spec["toolchain"] = opts.Toolchain
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("SandboxRunner"))
	obj.SetName(name)
	return obj, nil
}

// awaitRunner waits until the SandboxRunner is ready, or its runner answers nevertheless: one
// whose process does not stay up is never ready before somebody brings it other files.
func (w Workspace) awaitRunner(ctx context.Context, runners dynamic.ResourceInterface, name string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	last := ""
	for {
		obj, err := runners.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("waiting for the SandboxRunner (%s): %w", last, err)
		}
		var status sandbarv1alpha1.InstanceStatus
		if fields, ok := obj.Object["status"].(map[string]any); ok {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
				return fmt.Errorf("reading the status of the SandboxRunner: %w", err)
			}
		}
		suspended, _, _ := unstructured.NestedBool(obj.Object, "spec", "suspended")
		ready := readyOf(&status)
		current := status.ObservedGeneration == obj.GetGeneration() && !suspended && status.DataPlane != nil && ready != nil
		if current && ready.Status == metav1.ConditionTrue {
			return nil
		}
		if now := StateText(&status); now != last {
			w.Notes.send(StateChanged{Name: name, UID: obj.GetUID(), Text: now})
			last = now
		}
		if current {
			if answers, err := w.answers(ctx, name); answers || err != nil {
				return err
			}
		}
		if missing := missingImage(&status, obj.GetGeneration()); missing != "" {
			return fmt.Errorf("the SandboxRunner cannot run: %s", missing)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the SandboxRunner, which is %s: %w", last, ctx.Err())
		}
	}
}

// answers reports whether the runner of a SandboxRunner takes calls.
func (w Workspace) answers(ctx context.Context, name string) (bool, error) {
	c, err := w.Client()
	if err != nil {
		return false, err
	}
	defer c.Close()
	i, err := c.Instance(ctx, client.SandboxRunners, w.Namespace, name)
	if err != nil {
		return false, err
	}
	if _, err := i.Env(ctx); err != nil {
		if client.Temporary(err) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}
