// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"time"

	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
)

// onlineTimeout is how long the node's way out may take until it works.
const onlineTimeout = time.Minute

// online gives the node a way to the internet. Without it sandboxes reach nothing, which is how tests want
// it: the same on every machine.
func online(ctx context.Context, setup *setup, args []string) error {
	if len(args) > 0 {
		return usageError{"online takes no arguments"}
	}
	if missing := node.InternetMissing(); missing != "" {
		return fmt.Errorf("%s is not installed, which gives the node a way to the internet: install Debian's package of that name", missing)
	}
	s, err := setup.loaded()
	if err != nil {
		return err
	}
	running, err := setup.runningNode()
	if err != nil {
		return err
	}
	lock, err := setup.lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, onlineTimeout, fmt.Errorf("no way out after %s", onlineTimeout))
	defer cancel()
	n := s.node()
	if _, err := s.ensureUnit(ctx, n.Internet(running), nil, nil); err != nil {
		return err
	}
	return progress.Step("the internet is there for pods", func() error { return n.UseInternet(ctx, running) })
}
