// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig writes the kubeconfig files of a stack. Each has one
// cluster, verified by its CA, and one user, so that nobody picks the wrong one.
package kubeconfig

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/hack/stack/state"
)

// Access is how one user reaches one cluster.
type Access struct {
	Server string
	// CA is the PEM bundle that verifies the server.
	CA []byte
	// User is the user's name in the file.
	User string
	// Token, or ClientCert and ClientKey (PEM), prove who the user is.
	Token                 string
	ClientCert, ClientKey []byte //nolint:gosec // holding credentials is what a kubeconfig is for
}

// The wire form, as far as it is used here.
type (
	file struct {
		APIVersion     string         `json:"apiVersion"`
		Kind           string         `json:"kind"`
		Clusters       []namedCluster `json:"clusters"`
		Users          []namedUser    `json:"users"`
		Contexts       []namedContext `json:"contexts"`
		CurrentContext string         `json:"current-context"`
	}
	namedCluster struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	}
	cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	}
	namedUser struct {
		Name string `json:"name"`
		User user   `json:"user"`
	}
	user struct {
		Token      string `json:"token,omitempty"`
		ClientCert []byte `json:"client-certificate-data,omitempty"`
		ClientKey  []byte `json:"client-key-data,omitempty"` //nolint:gosec // as above
	}
	namedContext struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	}
)

// Write writes a kubeconfig that only its owner can read.
func Write(path string, a Access) error {
	f := file{
		APIVersion:     "v1",
		Kind:           "Config",
		Clusters:       []namedCluster{{Name: "stack", Cluster: cluster{Server: a.Server, CA: a.CA}}},
		Users:          []namedUser{{Name: a.User, User: user{a.Token, a.ClientCert, a.ClientKey}}},
		Contexts:       []namedContext{{Name: "stack"}},
		CurrentContext: "stack",
	}
	f.Contexts[0].Context.Cluster, f.Contexts[0].Context.User = "stack", a.User
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig of %s: %w", a.User, err)
	}
	return state.WriteFile(path, data, 0o600)
}

// ServerCA returns the address and the CA of the cluster with that name in a
// kubeconfig that another program wrote.
func ServerCA(path, name string) (server string, ca []byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for _, c := range f.Clusters {
		if c.Name == name {
			return c.Cluster.Server, c.Cluster.CA, nil
		}
	}
	return "", nil, fmt.Errorf("%s has no cluster %q", path, name)
}
