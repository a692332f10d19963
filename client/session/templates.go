// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/sandbar-dev/sandbar/client"
)

// Templates returns the Templates that the providers of the workspace's bindings offer. The caller needs the right to
// list the workspace's APIBindings. A data plane that is not trusted is a [client.UntrustedError].
func (w Workspace) Templates(ctx context.Context) ([]client.Template, error) {
	c, workspace, offers, err := w.offered(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all []client.Template
	for _, o := range offers {
		templates, err := c.Templates(ctx, o.URL, workspace)
		if err != nil {
			return nil, err
		}
		all = append(all, templates...)
	}
	return all, nil
}

// offered returns what the workspace's bindings offer, the workspace's name, and a client for it, which the caller
// closes.
func (w Workspace) offered(ctx context.Context) (*client.Client, string, []client.Offer, error) {
	workspace, err := nameOf(w.Config.Host)
	if err != nil {
		return nil, "", nil, err
	}
	offers, err := w.Offers(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	c, err := w.Client()
	return c, workspace, offers, err
}

// nameOf is the workspace that a cluster's address leads to.
func nameOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("reading the address of the workspace: %w", err)
	}
	_, path, ok := strings.Cut(u.Path, "/clusters/")
	name, _, _ := strings.Cut(path, "/")
	if !ok || name == "" {
		return "", fmt.Errorf("the kubeconfig's server %s names no workspace: its address ends with /clusters/WORKSPACE", address)
	}
	return name, nil
}
