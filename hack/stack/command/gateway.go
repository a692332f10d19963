// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"regexp"

	"github.com/sandbar-dev/sandbar/hack/stack/images"
	"github.com/sandbar-dev/sandbar/hack/stack/node"
	"github.com/sandbar-dev/sandbar/hack/stack/progress"
)

// domains are the names of hosts that have subdomains.
var domains = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]([-a-z0-9]*[a-z0-9])?$`)

// gateway gives a stack that is up a Gateway API controller and a Gateway for the hosts below a domain. It prints what
// init needs of them, and where to reach them.
func gateway(ctx context.Context, setup *setup, args []string) error {
	if len(args) != 1 || !domains.MatchString(args[0]) {
		return usageError{"gateway takes a domain, such as gateway.test"}
	}
	s, err := setup.loaded()
	if err != nil {
		return err
	}
	archives, err := s.gatewayImage(ctx)
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
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s", startTimeout))
	defer cancel()
	if err := s.importer(running).Import(ctx, archives); err != nil {
		return err
	}
	var made *node.Gateway
	if err := progress.Step("the Gateway serves", func() (err error) {
		made, err = s.node().InstallGateway(ctx, args[0])
		return err
	}); err != nil {
		return err
	}
	fmt.Printf("gateway  %s/%s\ndomain   %s\naddress  %s\nca       %s\n", node.GatewayNamespace, node.GatewayName, made.Domain, made.Address, made.CAFile)
	return nil
}

// gatewayImage makes the controller's image and returns its archive by the image's name.
func (s *stack) gatewayImage(ctx context.Context) (map[string]string, error) {
	const name = "traefik"
	archives, err := s.imagesOf(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	return map[string]string{images.Ref(name): archives[name]}, nil
}
