// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// Part is a directory of a project and the workspace that it is kept alike with: one component of an instance,
// or all of an instance without components.
type Part struct {
	// Component is empty for an instance that is one workspace.
	Component string
	// Path is where the part lies in the project, with slashes; "." for all of it.
	Path string
	// Dir is the directory of this machine, Project the one that it lies in, or is.
	Dir, Project string
	// Instance has the verbs of the component.
	Instance *client.Instance
}

// ComponentSkipped is the [Note] that the project has no directory for a component, which is left alone.
type ComponentSkipped struct{ Project, Path, Component string }

func (ComponentSkipped) isNote() {}

// ErrNoComponents means that a component was named, and the instance is not made of any.
var ErrNoComponents = errors.New("has no components")

// Parts returns the parts of an instance that are developed in a project's directory: all, or the component that
// is not empty. A component whose directory the project does not have is left out with a [ComponentSkipped]. A
// component that does not exist, or cannot be developed, and a project with no part at all are a [UsageError];
// other errors are those of [client.Instance.Components].
func Parts(ctx context.Context, i *client.Instance, project, component string, notes Notes) ([]Part, error) {
	var components map[string]client.DevelopedComponent
	if i.Resource() != client.SandboxRunners {
		var err error
		if components, err = i.Components(ctx); err != nil {
			return nil, err
		}
	}
	if len(components) == 0 {
		whole, err := Component(i, component)
		if err != nil {
			return nil, err
		}
		return []Part{{Path: ".", Dir: project, Project: project, Instance: whole}}, nil
	}
	names := slices.Sorted(maps.Keys(components))
	if component != "" {
		if !slices.Contains(names, component) {
			return nil, usage("the component %q cannot be developed; there are %s", component, strings.Join(names, ", "))
		}
		names = []string{component}
	}
	var parts []Part
	for _, name := range names {
		at := path.Clean(components[name].WorkspacePath)
		p := Part{Component: name, Path: at, Dir: filepath.Join(project, filepath.FromSlash(at)), Project: project, Instance: i.Component(name)}
		if _, err := os.Stat(p.Dir); errors.Is(err, fs.ErrNotExist) {
			notes.send(ComponentSkipped{Project: project, Path: at, Component: name})
			continue
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, usage("%s has no directory of a component", project)
	}
	return parts, nil
}

// Open opens the sync engine of a part. It sets Dir, Project, Remote and ID of the options. The caller closes the engine.
func (p Part) Open(opts devsync.Options) (*devsync.Engine, error) {
	opts.Dir, opts.Project, opts.Remote, opts.ID = p.Dir, p.Project, p.Instance.Workspace(), p.Instance.ID()
	return devsync.Open(opts)
}

// LacksModules reports whether the part's package.json names packages of npm and its sandbox has none. An app
// without them ends with an error that may not say so, perhaps from another version of a package that the image
// has. It is false when the sandbox cannot be asked within five seconds.
func (p Part) LacksModules(ctx context.Context) bool { return lacksModules(ctx, p.Dir, p.Instance) }

// Component returns the component of an instance, or the instance itself for an empty name. Where the instance's
// status lists verbs, a component without any is a [UsageError], and one of an instance without components is an
// [ErrNoComponents] as well.
func Component(i *client.Instance, component string) (*client.Instance, error) {
	verbs := i.Status.DataPlane.Verbs
	if component == "" || len(verbs) == 0 {
		return i.Component(component), nil
	}
	var components []string
	for _, verb := range verbs {
		if rest, ok := strings.CutPrefix(verb, "components/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			components = append(components, name)
		}
	}
	slices.Sort(components)
	components = slices.Compact(components)
	switch {
	case slices.Contains(components, component):
		return i.Component(component), nil
	case len(components) == 0:
		return nil, usage("%s %w", i.Object.GetName(), ErrNoComponents)
	default:
		return nil, usage("%s has no component %s; there are %s", i.Object.GetName(), component, termsafe.Line(strings.Join(components, ", ")))
	}
}
