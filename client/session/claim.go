// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sandbar-dev/sandbar/client"
)

// ErrNoSandboxes means that no binding of the workspace offers SandboxTemplates with a data plane.
var ErrNoSandboxes = errors.New("no APIBinding of the workspace serves sandboxtemplates.sandbar.dev and names a data plane: bind a provider that offers Sandboxes")

// Claim creates a Sandbox of a SandboxTemplate of the workspace's namespace and waits until it is Ready; see
// [client.Client.Claim]. The caller needs the right to list the workspace's APIBindings, too.
func (w Workspace) Claim(ctx context.Context, template string, opts client.ClaimOptions) (*client.Claimed, error) {
	c, workspace, offers, err := w.offered(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, o := range offers {
		if o.Serves(schema.GroupResource{Group: "sandbar.dev", Resource: "sandboxtemplates"}) {
			return c.Claim(ctx, o.URL, workspace, w.Namespace, template, opts)
		}
	}
	return nil, ErrNoSandboxes
}
