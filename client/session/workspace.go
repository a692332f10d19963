// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// Workspace is a workspace as one person uses it from one machine. Its methods do not change it.
type Workspace struct {
	// Config leads to the workspace with the person's credential.
	Config *rest.Config
	// Namespace has the instances.
	Namespace string
	// Trust has the data planes that may get the credential.
	Trust TrustStore
	// Confirm asks the person whether the data plane of an offer may get their credential. A nil Confirm
	// answers no.
	Confirm func(client.Offer) bool
	// Notes gets what happens during a call.
	Notes Notes
}

// Client returns a client that sends the credential to the data planes that are trusted. The caller closes it.
func (w Workspace) Client() (*client.Client, error) {
	planes, err := w.Trust.Load()
	if err != nil {
		return nil, err
	}
	return client.New(w.Config, planes...)
}

// Instance finds an instance in the workspace's namespace, with the errors of [client.Client.Instance].
func (w Workspace) Instance(ctx context.Context, resource schema.GroupVersionResource, name string) (*client.Instance, error) {
	c, err := w.Client()
	if err != nil {
		return nil, err
	}
	return c.Instance(ctx, resource, w.Namespace, name)
}
