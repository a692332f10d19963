// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/sandbar-dev/sandbar/client"
)

// Baselines returns the Baselines that the providers of the workspace's bindings offer to it; with a name, those that have
// it. It needs and fails as [Workspace.Templates] does.
func (w Workspace) Baselines(ctx context.Context, name string) ([]client.Baseline, error) {
	c, workspace, offers, err := w.offered(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all []client.Baseline
	for _, o := range offers {
		baselines, err := c.Baselines(ctx, o.URL, workspace, name)
		if err != nil {
			return nil, err
		}
		all = append(all, baselines...)
	}
	return all, nil
}
