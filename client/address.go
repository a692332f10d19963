// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// annotationCluster is where kcp says which logical cluster an object is in.
const annotationCluster = "kcp.io/cluster"

// AddressError means that the status of an instance names an address that is not the instance's own. Nothing was sent there.
type AddressError struct {
	Resource, Namespace, Name string
	// Address is what the status names.
	Address string
}

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("the status of %s %s/%s names the address %q, which is that of something else: nothing was sent there; ask the people who run the provider",
		e.Resource, e.Namespace, e.Name, e.Address)
}

// baseOf is the address that the status of an instance names, if it is the instance's own: behind the data plane's base,
// /dataplane/clusters/CLUSTER/namespaces/NAMESPACE/RESOURCE/NAME. The attack: a provider names an address of another
// provider's data plane, which the person trusts, so that a command for a sandbox here runs in another one of theirs, or a
// POST reaches an app of the person's by the verb proxy.
//
// An empty cluster stands for any: a server that is not kcp, such as a test's, names none.
func baseOf(cluster, resource, namespace, name, address string) (*url.URL, error) {
	wrong := &AddressError{Resource: resource, Namespace: namespace, Name: name, Address: address}
	u, err := url.Parse(address)
	if err != nil || u.RawQuery != "" || u.ForceQuery || strings.ContainsAny(address, "#%\\") {
		return nil, wrong
	}
	own := []string{"dataplane", "clusters", cluster, "namespaces", namespace, resource, name}
	segments := strings.Split(strings.TrimSuffix(strings.TrimPrefix(u.Path, "/"), "/"), "/")
	at := len(segments) - len(own)
	// A base with clusters in it is a verb's address already, and the rest of the path what the verb leads to.
	if at < 0 || slices.ContainsFunc(segments, isOdd) || slices.Contains(segments[:at], "clusters") {
		return nil, wrong
	}
	if cluster == "" {
		own[2] = segments[at+2]
	}
	if !slices.Equal(segments[at:], own) {
		return nil, wrong
	}
	return u, nil
}

// isOdd reports whether a segment means something else than itself to a server.
func isOdd(segment string) bool { return segment == "" || segment == "." || segment == ".." }
