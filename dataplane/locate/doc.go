// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package locate finds where on the runtime cluster a request leads.
//
//	route.go        a path, in any of its forms, into workspace, object, component, port and verb
//	tail.go         which rests of paths climb out of where they belong
//	kinds.go        which kinds and verbs there are: the Templates of the provider workspace
//	place.go        which placement stands for an object, by its UID
//	session.go      or for a DevSession, in the placement of its group
//	instances.go    the kro instance in it
//	resolve.go      an endpoint's reference into a Service and Secret of the placement
//	resolvepod.go   or into a Pod
//	destination.go  what is dialled, as a key for connections
//	runtime.go      what is known of the runtime cluster, without a network hop
//
// What enters is a URL, and later a grant of package access with the object's UID; what leaves is a
// Target, all of which lies in that object's placement. It must never see a credential, and it believes no
// name, label or status that a tenant or a pod can write: the namespace is that which the provider labelled
// with the object's UID, and what lies there must carry the placement's.
package locate
