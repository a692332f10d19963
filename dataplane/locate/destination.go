// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Destination is what connections are made to and kept for: a port of a Service or of a Pod of one
// placement, and the Secret with the control token for it.
type Destination struct {
	Namespace string
	// UID is that of the placement's instance: its pods carry it.
	UID types.UID
	// Service or pod is the name; the other is empty.
	Service, Pod string
	// Port is the name of the Service's port, or the number of the Pod's.
	Port string
	// Secret is the name of the Secret with the control token; empty if none is shown there.
	Secret string //nolint:gosec // a name
	// Proves is set if pods that take proofs must not get the token itself.
	Proves bool
}

// Kinds of destinations, in a host.
const (
	toService = "service"
	toPod     = "pod"
	// withProof ends the host of those that get proofs.
	withProof = "proof"
)

// Host is the destination as a key. No part of it has a slash: all are names or numbers of
// Kubernetes. It is no name that anybody could look up; who dials reads it with readHost.
func (d Destination) Host() string {
	kind, name, proof := toService, d.Service, ""
	if d.Pod != "" {
		kind, name = toPod, d.Pod
	}
	if d.Proves {
		proof = withProof
	}
	return kind + "/" + d.Port + "/" + name + "/" + d.Namespace + "/" + string(d.UID) + "/" + d.Secret + "/" + proof
}

// ReadHost reads what Host has written; ok is false for any other name.
func ReadHost(host string) (d Destination, ok bool) {
	var name, uid, proof string
	kind, rest, _ := strings.Cut(host, "/")
	d.Port, rest, _ = strings.Cut(rest, "/")
	name, rest, _ = strings.Cut(rest, "/")
	d.Namespace, rest, _ = strings.Cut(rest, "/")
	uid, rest, _ = strings.Cut(rest, "/")
	d.Secret, proof, ok = strings.Cut(rest, "/")
	d.UID, d.Proves = types.UID(uid), proof == withProof
	switch kind {
	case toService:
		d.Service = name
	case toPod:
		d.Pod = name
	default:
		return d, false
	}
	return d, ok && name != "" && d.Port != "" && d.Namespace != "" && uid != "" && (proof == "" || d.Proves)
}
