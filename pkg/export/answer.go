// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"errors"

	"github.com/kcp-dev/sdk/apis/tenancy"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ErrNoEndpoint means that no shard offers the export now, so that nothing can be said of any
// tenant's object.
var ErrNoEndpoint = errors.New("the APIExport has no endpoint")

// Ask asks each shard for an object. The error satisfies IsGone only when a shard says that the object is
// not there, and every other one the same or that it has nothing to do with the workspace.
func Ask(shards []*Shard, get func(*Shard) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	answer := ErrNoEndpoint
	for _, s := range shards {
		obj, err := get(s)
		if err == nil {
			return obj, nil
		}
		answer = worse(answer, err)
	}
	return nil, answer
}

// worse prefers the answer that says less of the object. A shard that has nothing to do with a
// workspace refuses every question about it (Forbidden); that it says of an object that it is gone is
// proof that the workspace is its own and has bound the kind (github.com/kcp-dev/kcp/pkg/virtual/apiexport/authorizer).
func worse(a, b error) error {
	rank := func(err error) int {
		switch {
		case errors.Is(err, ErrNoEndpoint):
			return 0
		case apierrors.IsForbidden(err):
			return 1
		case IsGone(err):
			return 2
		}
		return 3
	}
	if rank(a) > rank(b) {
		return a
	}
	return b
}

// IsGone reports whether an answer of kcp's proves that an object is gone: it was looked for, in a
// workspace and a kind that were there, and not found. An answer that only looks like it says that the
// path leads nowhere: while kcp starts, or when the workspace does not have the kind. client-go gives
// such an answer the object's name, too, and the cause that no object of the API came with it. For a workspace that is asked for by its
// path, kcp says while it starts that the workspace is not found, although it is there
// (github.com/kcp-dev/kcp/pkg/server, WithLocalProxy).
func IsGone(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name != "" && details.Group != tenancy.GroupName && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
