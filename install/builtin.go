// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/apis/builtin"
)

// immutablePolicies are the admission policies of built-in kinds with fields that do not change.
func immutablePolicies(kinds []builtin.Kind) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, kind := range kinds {
		if len(kind.Immutable) == 0 {
			continue
		}
		objects, err := read(manifests, "manifests/builtin/immutable.yaml", map[string]string{
			"Resource": kind.Resource, "Fields": quoted(kind.Immutable), "Message": strconv.Quote(kind.ImmutableMessage),
		})
		if err != nil {
			return nil, fmt.Errorf("making the policy of %s: %w", kind.Resource, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}

// quoted writes names as a list of CEL.
func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(name)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// roleValues are what the ready-made roles leave open: the built-in kinds, their status and what else people who look on see, their
// other subresources, what is called, and what is read.
func roleValues(kinds []builtin.Kind) map[string]string {
	var resources, status, others, calls, reads []string
	for _, kind := range kinds {
		resources, status = append(resources, kind.Resource), append(status, kind.Resource+"/status")
		for _, shown := range kind.Shown {
			status = append(status, kind.Resource+"/"+shown)
		}
		for _, read := range kind.Reads {
			reads = append(reads, kind.Resource+"/"+read)
		}
		for _, subresource := range kind.Subresources {
			others = append(others, kind.Resource+"/"+subresource)
		}
		for _, call := range kind.Calls {
			calls = append(calls, kind.Resource+"/"+call)
		}
	}
	return map[string]string{
		"BuiltIn": strings.Join(resources, ", "), "BuiltInStatus": strings.Join(status, ", "),
		"BuiltInSubresources": strings.Join(others, ", "), "BuiltInCalls": strings.Join(calls, ", "), "BuiltInReads": strings.Join(reads, ", "),
	}
}
