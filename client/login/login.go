// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Login is a credential for a workspace, and where in a kubeconfig it goes.
type Login struct {
	// Server is the workspace's address, as [ParseServer] returns it.
	Server string
	// Context is the name of the kubeconfig's context; [ContextName] of the server if it is empty.
	Context string
	// Namespace is that of the context; if it is empty, a context that exists keeps its own.
	Namespace string
	// CAFile is the path of the PEM bundle that verifies the server. If it is empty, the context's cluster keeps what it
	// has, and a new one is verified by the system's roots.
	CAFile string
	// User is the credential.
	User *clientcmdapi.AuthInfo
}

// TakenError means that a name in the kubeconfig belongs to something else. Nothing was changed.
type TakenError struct {
	// What is "context", "cluster" or "user", and Name its name.
	What, Name string
	// Why says what it belongs to.
	Why string
}

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("the kubeconfig has a %s %s already, and it %s", e.What, e.Name, e.Why)
}

// mark is the extension of entries that a login has written. Only those are removed by a logout.
const mark = "sandbar.dev/login"

// written is the content of the mark.
type written struct {
	// Version is that of this format.
	Version int `json:"version"`
}

func marked(extensions map[string]runtime.Object) bool { return extensions[mark] != nil }

// setMark returns the extensions with the mark.
func setMark(extensions map[string]runtime.Object) (map[string]runtime.Object, error) {
	content, err := json.Marshal(written{Version: 1})
	if err != nil {
		return nil, fmt.Errorf("encoding the mark of a login: %w", err)
	}
	extensions = maps.Clone(extensions)
	if extensions == nil {
		extensions = map[string]runtime.Object{}
	}
	extensions[mark] = &runtime.Unknown{Raw: content, ContentType: runtime.ContentTypeJSON}
	return extensions, nil
}

// name is that of the context.
func (l Login) name() string { return cmp.Or(l.Context, ContextName(l.Server)) }

// into puts the login into a configuration and makes it the current one. The error is a *[TakenError] if a name leads
// elsewhere.
func (l Login) into(cfg *clientcmdapi.Config) error {
	name := l.name()
	current := cfg.Contexts[name]
	if current == nil {
		current = clientcmdapi.NewContext()
		var err error
		if current.Extensions, err = setMark(current.Extensions); err != nil {
			return err
		}
	} else {
		current = current.DeepCopy() // with its namespace
	}
	current.Namespace = cmp.Or(l.Namespace, current.Namespace)
	current.Cluster, current.AuthInfo = cmp.Or(current.Cluster, name), cmp.Or(current.AuthInfo, name)
	if err := l.putCluster(cfg, name, current.Cluster); err != nil {
		return err
	}
	if err := l.putUser(cfg, name, current.AuthInfo); err != nil {
		return err
	}
	cfg.Contexts[name], cfg.CurrentContext = current, name
	return nil
}

func (l Login) putCluster(cfg *clientcmdapi.Config, contextName, name string) error {
	cluster := cfg.Clusters[name]
	if cluster == nil {
		cluster = clientcmdapi.NewCluster()
		cluster.Server = l.Server
		var err error
		if cluster.Extensions, err = setMark(cluster.Extensions); err != nil {
			return err
		}
	}
	if server, err := ParseServer(cluster.Server); err != nil || server != l.Server {
		if cfg.Contexts[contextName] != nil {
			return &TakenError{What: "context", Name: contextName, Why: "leads to " + cmp.Or(cluster.Server, "no server")}
		}
		return &TakenError{What: "cluster", Name: name, Why: "leads to " + cmp.Or(cluster.Server, "no server")}
	}
	if l.CAFile != "" {
		cluster = cluster.DeepCopy()
		cluster.CertificateAuthority, cluster.CertificateAuthorityData, cluster.InsecureSkipTLSVerify = l.CAFile, nil, false
	}
	cfg.Clusters[name] = cluster
	return nil
}

func (l Login) putUser(cfg *clientcmdapi.Config, contextName, name string) error {
	var users []string
	for other, c := range cfg.Contexts {
		if other != contextName && c.AuthInfo == name {
			users = append(users, other)
		}
	}
	slices.Sort(users)
	before := cfg.AuthInfos[name]
	switch {
	case len(users) > 0:
		return &TakenError{What: "user", Name: name, Why: "is that of " + plural("the context", users) + " too"}
	case before != nil && cfg.Contexts[contextName] == nil && !marked(before.Extensions):
		return &TakenError{What: "user", Name: name, Why: "was not written by a login"}
	}
	user := l.User.DeepCopy()
	var err error
	if user.Extensions, err = setMark(user.Extensions); err != nil {
		return err
	}
	if before != nil {
		user.LocationOfOrigin = before.LocationOfOrigin // the file of several that has it
	}
	cfg.AuthInfos[name] = user
	return nil
}

func plural(word string, names []string) string {
	if len(names) > 1 {
		word += "s"
	}
	return word + " " + strings.Join(names, ", ")
}

// Prepare returns the kubeconfig as it is with the login in it. Nothing is written. The error is a *[TakenError] if a name
// in it leads elsewhere.
func (l Login) Prepare(file clientcmd.ConfigAccess) (*clientcmdapi.Config, error) {
	cfg, err := file.GetStartingConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return cfg, l.into(cfg)
}

// Write puts the login into a kubeconfig and makes its context the current one. It returns the context's name, and the
// errors of [Login.Prepare].
func (l Login) Write(file clientcmd.ConfigAccess) (string, error) {
	cfg, err := l.Prepare(file)
	if err != nil {
		return "", err
	}
	// Paths stay absolute: client-go would write a plugin beside the kubeconfig as a bare name, which is looked for in PATH.
	if err := clientcmd.ModifyConfig(file, *cfg, false); err != nil {
		return "", fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return l.name(), nil
}
