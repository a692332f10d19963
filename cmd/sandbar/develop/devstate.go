// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// stateEvery is how often dev reads the instance. It does not watch: the verbs need
	// the right to get the object, and not the right to watch it.
	stateEvery = 2 * time.Second
	// lastLines is how many lines of the log dev repeats when the app does not stay up.
	lastLines = 10
	// tailLines is how many of the log it reads for them: the next start may have written some, too.
	tailLines = 10 * lastLines
)

// devState is what dev reports of the instance itself; a line of -o json.
type devState struct {
	Phase   string `json:"phase"`
	Ready   bool   `json:"ready"`
	Message string `json:"message,omitempty"`
	// URL is where the app is served to a caller with a token, once it answers there.
	URL string `json:"url,omitempty"`
	// PortMessage is why an app that runs does not answer where its preview leads.
	PortMessage string `json:"portMessage,omitempty"`
	// Ended is how an app that does not stay up ended the last time.
	Ended string `json:"ended,omitempty"`
	// LacksDependencies: the project names packages, and the sandbox has none.
	LacksDependencies bool `json:"lacksDependencies,omitempty"`
	// LastLines are those that an app that does not stay up wrote before it ended the last time.
	LastLines []string `json:"lastLines,omitempty"`

	// lacking: a program or a module was not found.
	lacking bool
	// toolchain is that of a SandboxRunner; empty for other kinds.
	toolchain string
}

// devStateOf reads the state of an instance.
func devStateOf(obj *unstructured.Unstructured) (devState, error) {
	var status sandbarv1alpha1.InstanceStatus
	if fields, ok := obj.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
			return devState{}, fmt.Errorf("reading the status of the instance: %w", err)
		}
	}
	state := devState{Phase: string(status.Phase)}
	if obj.GetKind() == "SandboxRunner" {
		state.toolchain, _, _ = unstructured.NestedString(obj.Object, "spec", "toolchain")
	}
	if c := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition); c != nil {
		state.Ready = c.Status == metav1.ConditionTrue
		if !state.Ready {
			state.Message = termsafe.String(c.Message)
		}
	}
	return state, nil
}

// down reports whether the app does not stay up, or does not become ready, and does not mend itself.
func (d devState) down() bool {
	return d.Phase == string(sandbarv1alpha1.InstanceFailed) || d.Phase == string(sandbarv1alpha1.InstanceDegraded)
}

// stateFollower tells a person how the instance is while they develop it.
type stateFollower struct {
	name string
	tell func(devState) error
	// crash finds out about an app that does not stay up.
	crash func(ctx context.Context) crash
	// lacking reports whether the dependencies of the app are not installed.
	lacking func(ctx context.Context) bool
	url     string
	// told is the state, in words, that was told before; empty for none.
	told string
	// synced reports whether all files have been sent once. What an app does without them is no news.
	synced func() bool
	// unanswered is why the app does not answer at its port, empty if it does, and whether that is known.
	unanswered func(ctx context.Context) (why string, known bool)

	// silent counts how often the app has not answered.
	silent int
	last   devState
}

// patience is how often in a row an app may not answer before that is told: most need a moment.
const patience = 3

// port looks whether an app that is Ready can be opened, and reports whether that can be told. It looks each
// time: an app that is started again may listen elsewhere.
func (f *stateFollower) port(ctx context.Context, state *devState) bool {
	if !state.Ready {
		f.silent = 0
		return true
	}
	why, known := f.unanswered(ctx)
	switch {
	case !known:
		return false
	case why == "":
		f.silent = 0
		return true
	}
	f.silent++
	state.PortMessage = why
	return f.silent >= patience
}

// observe tells what has changed.
func (f *stateFollower) observe(ctx context.Context, obj *unstructured.Unstructured) error {
	state, err := devStateOf(obj)
	if err != nil || (state.Ready || state.down()) && !f.synced() || !f.port(ctx, &state) {
		return err
	}
	if state.Phase == f.last.Phase && state.Ready == f.last.Ready && state.Message == f.last.Message && state.PortMessage == f.last.PortMessage {
		return nil
	}
	f.last = state
	told := f.told
	if f.told = ""; told != "" && told == described(state) && !state.down() && state.PortMessage == "" {
		return nil
	}
	if state.Ready && state.PortMessage == "" {
		state.URL = f.url
	}
	if state.down() {
		c := f.crash(ctx)
		state.Ended, state.LastLines, state.lacking, state.LacksDependencies = c.ended, c.lines, c.lacking, f.lacking(ctx)
	}
	return f.tell(state)
}

// follow reads the instance until the context ends. A failed read is left to those who use the data
// plane: they say what is the matter.
func (f *stateFollower) follow(ctx context.Context, objects dynamic.ResourceInterface) error {
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	for {
		obj, err := objects.Get(ctx, f.name, metav1.GetOptions{})
		if err == nil {
			err = f.observe(ctx, obj)
			if err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// followState tells how the instance of the parts is, to the printer of the first.
func (s *target) followState(ctx context.Context, name string, parts []session.Part, d *devPrinter, synced func() bool) error {
	k, err := s.Kind()
	if err != nil {
		return err
	}
	f := &stateFollower{
		name: s.Name, told: s.Told, synced: synced,
		unanswered: func(ctx context.Context) (string, bool) {
			for _, p := range parts {
				if why, known := unanswered(ctx, p.Instance); why != "" || !known {
					return why, known
				}
			}
			return "", true
		},
		tell: func(state devState) error { return d.state(name, state) },
		lacking: func(ctx context.Context) bool {
			return slices.ContainsFunc(parts, func(p session.Part) bool { return p.LacksModules(ctx) })
		},
		crash: func(ctx context.Context) crash { return crashesOf(ctx, parts) },
	}
	if d.json {
		f.told = "" // it was told in words, beside the JSON
	}
	if i := parts[0].Instance; i.Has("proxy") {
		f.url = i.URL("proxy", "", nil).String() + "/"
	}
	return f.follow(ctx, k.Instances())
}

// toInstall are the commands that install a project's dependencies, by toolchain.
var toInstall = map[string]string{
	"node":   "npm install",
	"python": "sh -c 'python3 -m venv .venv && .venv/bin/pip install -r requirements.txt'",
	"go":     "go mod download",
}

// unanswered is why the app of an instance does not answer at its port, as the runner sees it. It is empty
// if the app does, if there is none to open, and for a caller who may not ask; it is not known at a moment
// when the runner cannot be reached.
func unanswered(ctx context.Context, i *client.Instance) (why string, known bool) {
	if !i.Has("proxy") || !i.Has("process") {
		return "", true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var process struct {
		PortReachable bool
		PortMessage   string
	}
	switch err := i.DoJSON(ctx, client.Request{Verb: "process"}, nil, &process); {
	case err != nil:
		return "", !client.Temporary(err) && ctx.Err() == nil
	case process.PortReachable:
		return "", true
	}
	return process.PortMessage, true
}

// state prints a change of the instance's state.
func (d *devPrinter) state(name string, state devState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.json {
		return d.line(devLine{State: &state})
	}
	switch {
	case state.Phase == string(sandbarv1alpha1.InstanceSuspending):
		// What comes of it is said.
	case state.PortMessage != "":
		cli.Say(d.notes, "%s runs, and cannot be opened yet: %s", name, termsafe.Line(state.PortMessage))
	case state.Ready && state.URL != "":
		cli.Say(d.notes, "%s is Ready; open it with: sandbar open %s --stay (with a token it is at %s)", name, name, state.URL)
	case state.Ready:
		cli.Say(d.notes, "%s is Ready", name)
	case !state.down():
		cli.Say(d.notes, "%s is %s", name, described(state))
	default:
		if len(state.LastLines) > 0 {
			// They are more than what the condition quotes of them.
			state.Message, _, _ = strings.Cut(state.Message, " "+sandbarv1alpha1.LastWordsMark)
		}
		what := "it is " + described(state)
		if state.Ended != "" {
			what = state.Ended
		}
		cli.Say(d.notes, "%s does not stay up: %s", name, what)
		if state.LacksDependencies {
			cli.Say(d.notes, "the packages that its package.json names are not installed, so do that first: sandbar exec %s -- %s", name, toInstall["node"])
		}
		if len(state.LastLines) > 0 {
			cli.Say(d.notes, "its last lines:")
		}
		for _, line := range state.LastLines {
			fmt.Fprintf(d.notes, "  | %s\n", termsafe.String(line))
		}
		cli.Say(d.notes, "it is started again by itself, and when a file that you save has been sent")
		if install := toInstall[state.toolchain]; install != "" && state.lacking && !state.LacksDependencies {
			cli.Say(d.notes, "if it lacks its dependencies, install them in the sandbox: sandbar exec %s -- %s", name, install)
			cli.Say(d.notes, "if something else should run, set spec.startCommand of the SandboxRunner, or spec.toolchain for another language")
		}
	}
	return nil
}

// described is a state in words.
func described(state devState) string {
	if state.Message == "" {
		return state.Phase
	}
	return state.Phase + ": " + state.Message
}
