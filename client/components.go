// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// ComponentsWith names the components of the instance that have a verb, in alphabetical order.
func (i *Instance) ComponentsWith(verb string) []string {
	var names []string
	for _, v := range i.Status.DataPlane.Verbs {
		name, ok := strings.CutPrefix(v, "components/")
		if name, of, _ := strings.Cut(name, "/"); ok && of == verb {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// errNoWorkspace means that an address of a data plane is not of the form that Sandbar gives.
var errNoWorkspace = errors.New("the data plane's address names no workspace")

// DevelopedComponent is a component that runs, in development mode, from what is synced to it.
type DevelopedComponent struct {
	// WorkspacePath is the directory of the project that belongs to it; "." for all of it.
	WorkspacePath string `json:"workspacePath"`
}

// Components are those that the instance's Template lets be developed, by name; empty when it
// has none. It asks the data plane's catalogue. A path that leads out of a project is an error:
// it would make a client send files that are none of the project's.
func (i *Instance) Components(ctx context.Context) (map[string]DevelopedComponent, error) {
	// The base is …/clusters/WORKSPACE/[namespaces/NAMESPACE/]RESOURCE/NAME.
	u := *i.base
	before, after, ok := strings.Cut(u.Path, "/clusters/")
	workspace, _, _ := strings.Cut(after, "/")
	if !ok || workspace == "" {
		return nil, errNoWorkspace
	}
	u.Path, u.RawPath = before+"/clusters/"+workspace+"/templates", ""
	items, err := catalogue[Template](ctx, i.plane, &u)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item.Resource != i.resource.Resource || item.InstanceAPIVersion != i.Object.GetAPIVersion() {
			continue
		}
		for name, component := range item.Development {
			if !filepath.IsLocal(filepath.FromSlash(component.WorkspacePath)) {
				return nil, fmt.Errorf("reading the catalogue: the component %s claims %q, which leads out of a project", name, component.WorkspacePath)
			}
		}
		return item.Development, nil
	}
	return nil, nil
}
