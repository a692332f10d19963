// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Look is what one look at a compound instance has found.
type Look struct {
	// Object is the instance, and Old its status as it was read.
	Object *unstructured.Unstructured
	Old    sandbarv1alpha1.InstanceStatus
	// From is the field of the instance's spec with the workloads, To that of the part with the copies, and Routing the field of
	// the instance's spec with the routing; empty for none.
	From, To, Routing string
	// Copies is the part that has the copies of the workloads, Route the one that leads requests to them.
	Copies, Route Piece
	// Suspended says why the instance is to have no pods; empty if it is to have some.
	Suspended sandbarv1alpha1.SuspensionCause
	// Deleting says what a deletion waits for; empty while the instance is not being deleted.
	Deleting string
	// DataPlane is where the verbs of the workloads are served; nil for nowhere.
	DataPlane *sandbarv1alpha1.InstanceDataPlane
	Now       time.Time
}

// Piece is what a look has found of one part.
type Piece struct {
	// Kind is that of the part.
	Kind string
	// Wanted: the instance is to have it.
	Wanted bool
	Applied
	// Unseen: nobody knows whether there is one, and how it is. What was told of it stays.
	Unseen bool
}

// LookAt is a look that has found nothing yet.
func LookAt(obj *unstructured.Unstructured, old sandbarv1alpha1.InstanceStatus, words *scope.CompoundWords, now time.Time) Look {
	return Look{
		Object: obj, Old: old, From: words.Fields.From, To: words.To, Routing: words.Fields.RoutingFrom, Now: now,
		Copies: Piece{Kind: words.Part.GVK.Kind, Wanted: true}, Route: Piece{Kind: words.Route.GVK.Kind, Wanted: words.RoutingOf(obj) != nil},
	}
}

// TellsOfRoute reports whether the status of an instance says that there is a route of its own.
func TellsOfRoute(obj *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(obj.Object, "status", "underlyingRefs", "sandboxRouteName")
	return name != ""
}
