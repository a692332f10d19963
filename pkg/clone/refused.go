// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"strings"
)

// Reason is the reason of a condition of a component.
type Reason string

// The reasons of a RefusedError.
const (
	// SourceKindUnsupported: the workload is of a kind that is not copied.
	SourceKindUnsupported Reason = "SourceKindUnsupported"
	// InvalidSpec: the component is wrong, for any workload.
	InvalidSpec Reason = "InvalidSpec"
	// RenderFailed: an override or the patch does not fit the workload.
	RenderFailed Reason = "RenderFailed"
	// NotAllowed: neither the workload nor the Baseline admits what the tenant says.
	NotAllowed Reason = "NotAllowed"
	// SecretNotShared: the copy refers to a Secret that the Baseline does not share.
	SecretNotShared Reason = "SecretNotShared"
	// VolumeNotCloneable: the workload has a volume of which there can be no copy.
	VolumeNotCloneable Reason = "VolumeNotCloneable"
	// NotCloneable: the workload itself cannot be copied: it is part of its node, or too large.
	NotCloneable Reason = "NotCloneable"
	// NoPorts: neither the workload nor the component has ports for the Service.
	NoPorts Reason = "NoPorts"
)

// RefusedError says why there can be no copy.
type RefusedError struct {
	Reason Reason
	// Message names the field and what to do.
	Message string
}

func (r *RefusedError) Error() string { return r.Message }

func refuse(reason Reason, format string, args ...any) error {
	return &RefusedError{Reason: reason, Message: bounded(fmt.Sprintf(format, args...))}
}

// maxMessage is how many bytes a message has at most. The attack: a patch with names of 60 KiB, which the message repeats,
// and with which no condition could be written.
const maxMessage = 4 << 10

func bounded(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}

// The reasons of a Note.
const (
	// StatefulIdentityLost: a copy of a StatefulSet is a Deployment.
	StatefulIdentityLost = "StatefulIdentityLost"
	// ReplicasLimited: the workload has more replicas than a copy may have.
	ReplicasLimited = "ReplicasLimited"
	// IdentityRemoved: the workload has an identity on the runtime cluster, and the copy has none.
	IdentityRemoved = "IdentityRemoved"
	// ReferenceDropped: a reference that is optional leads to what is not shared.
	ReferenceDropped = "ReferenceDropped"
	// NodesKept: the patch has left out what the workload says of its nodes.
	NodesKept = "NodesKept"
	// SearchesDropped: not all namespaces fit into the pod's search list.
	SearchesDropped = "SearchesDropped"
)

// Note is a difference between a copy and its workload that the tenant has not asked for.
type Note struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// notes collects notes in order.
type notes []Note

func (n *notes) add(reason, format string, args ...any) {
	*n = append(*n, Note{Reason: reason, Message: bounded(fmt.Sprintf(format, args...))})
}
