// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ErrNotOurs means that the credential of a context was not written by a login, so that it is not removed.
var ErrNotOurs = errors.New("its credential was not written by a login")

// NoContextError means that a kubeconfig has no context of a name, or no current one if the name is empty.
type NoContextError struct{ Name string }

// Error implements error.
func (e *NoContextError) Error() string {
	if e.Name == "" {
		return "the kubeconfig has no current context"
	}
	return "the kubeconfig has no context " + e.Name
}

// Logout removes the credential of a context from a kubeconfig, and the context and its cluster if a login has made them and
// nothing else uses them. An empty name means the current context. It returns the credential that was removed.
func Logout(file clientcmd.ConfigAccess, name string) (contextName string, user *clientcmdapi.AuthInfo, err error) {
	cfg, err := file.GetStartingConfig()
	if err != nil {
		return "", nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if name == "" {
		name = cfg.CurrentContext
	}
	current := cfg.Contexts[name]
	if current == nil {
		return name, nil, &NoContextError{name}
	}
	if user = cfg.AuthInfos[current.AuthInfo]; user == nil || !marked(user.Extensions) {
		return name, nil, fmt.Errorf("the context %s: %w", name, ErrNotOurs)
	}
	remove(cfg, name, current)
	if err := clientcmd.ModifyConfig(file, *cfg, false); err != nil {
		return name, nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return name, user, nil
}

// remove takes a context's credential out, and what a login has made beside it.
func remove(cfg *clientcmdapi.Config, name string, current *clientcmdapi.Context) {
	// Other contexts of the user lose their credential with it: a logout that leaves it in the file is none.
	delete(cfg.AuthInfos, current.AuthInfo)
	for other, c := range cfg.Contexts {
		if c.AuthInfo == current.AuthInfo && other != name {
			c.AuthInfo = ""
		}
	}
	if !marked(current.Extensions) {
		current.AuthInfo = ""
		return
	}
	delete(cfg.Contexts, name)
	if cfg.CurrentContext == name {
		cfg.CurrentContext = ""
	}
	for _, c := range cfg.Contexts {
		if c.Cluster == current.Cluster {
			return
		}
	}
	if cluster := cfg.Clusters[current.Cluster]; cluster != nil && marked(cluster.Extensions) {
		delete(cfg.Clusters, current.Cluster)
	}
}
