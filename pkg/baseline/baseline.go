// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package baseline has the decisions about Baselines that several programs need: which workspaces a Baseline admits, which
// namespaces of the runtime cluster it may name, which Baseline an object of a workspace means, and which workloads and Services are part
// of one. It reads no server.
package baseline

import (
	"regexp"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Admits reports whether a Baseline is for the workspace with a path. The path has to be kcp's own word: a path that a
// caller or a tenant has written would let them choose what they see. An empty path is admitted nowhere.
//
// The attack that the colon is for: root:acme-corp is a stranger to root:acme, and not below it.
func Admits(spec *sandbarv1alpha1.BaselineSpec, path string) bool {
	if path == "" {
		return false
	}
	for _, w := range spec.Workspaces {
		if w.Path != "" && (path == w.Path || w.Recursive && strings.HasPrefix(path, w.Path+":")) {
			return true
		}
	}
	return false
}

// reserved matches the namespaces that no Baseline may name, as the CRD has it. There are Secrets of the runtime
// cluster's administrators, the keys of the provider, and the sandboxes of tenants.
var reserved = regexp.MustCompile(`^(kube|kro|sandbar|sb)-`)

// Reserved reports whether a namespace of the runtime cluster cannot be part of a Baseline. The CRD refuses it before;
// what gives or uses rights asks again, since a CRD can be edited.
func Reserved(namespace string) bool { return reserved.MatchString(namespace) }

// RoleName is the name of the Role, and of its RoleBinding, that lets the controllers of a provider read a namespace.
func RoleName(names placement.Names) string { return names.Prefix() + "-baseline" }

// GrantCommand is what an operator runs to give the controllers the rights that a Baseline needs.
func GrantCommand(name string) string {
	return "sandbar-provider baseline grant " + name
}
