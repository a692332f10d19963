// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// parameters writes ListOptions into a query.
var parameters = func() runtime.ParameterCodec {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, parametersVersion)
	return runtime.NewParameterCodec(scheme)
}()

var parametersVersion = schema.GroupVersion{Version: "v1"}

// Client works with the objects of one workspace, with the credential of one person. It can be used by
// several goroutines.
type Client struct {
	cfg     *rest.Config
	objects dynamic.Interface
	// raw reads what the dynamic client does not: objects with the columns that the server prints, and which kinds
	// there are.
	raw rest.Interface
	// signer says who creates objects.
	signer *client.Signer
}

// New returns a client of the workspace that a configuration leads to.
func New(workspace *rest.Config) (*Client, error) {
	cfg := dynamic.ConfigFor(workspace)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		// client-go's own limit, five requests a second, is for controllers that nobody waits for: a label for a
		// hundred objects would take forty seconds. The server has its limits, and says when it wants a pause.
		cfg.QPS = -1
	}
	connections, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	c := &Client{cfg: workspace, signer: client.NewSigner(workspace)}
	if c.objects, err = dynamic.NewForConfigAndClient(cfg, connections); err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	cfg.GroupVersion, cfg.APIPath = &schema.GroupVersion{}, "/apis" // requests name their whole path
	if c.raw, err = rest.UnversionedRESTClientForConfigAndClient(cfg, connections); err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	return c, nil
}

// of returns the objects of a kind in a namespace; an empty one means all of them.
func (c *Client) of(k Kind, namespace string) dynamic.ResourceInterface {
	if !k.Namespaced {
		return c.objects.Resource(k.Resource)
	}
	return c.objects.Resource(k.Resource).Namespace(namespace)
}
