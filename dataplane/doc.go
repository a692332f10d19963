// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package dataplane is the HTTP server of the verbs: it takes a caller's request for a verb of
// an instance to the place on the runtime cluster that answers it, if the caller may.
//
// A request goes through these steps, one file each; chain.go names them in order:
//
//	route      route.go       the path, in any of its forms, into workspace, object and verb
//	identify   identify.go    who calls
//	authorize  authorize.go   may they: GET and SelfSubjectAccessReview in the workspace, as the caller
//	contract   chain.go       which endpoint the Template declares for the verb (kinds.go follows Templates)
//	place      place.go       which placement stands for the object: by UID, from informers (runtime.go)
//	limit      limits.go      in flight, streams, rate, body (before, in authorize: askers.go, what one caller asks of kcp)
//	resolve    resolve.go     the endpoint's reference into a Service, Secret or Pod (pod.go) of the placement
//	transport  forward.go     the request to the pod (direct.go, apiserver.go, auto.go), upgrades (upgrade.go),
//	                          the subresources of a Pod (pod.go, podlog.go, podstream.go)
//	response   headers.go     what may pass, both ways
//
// Two verbs end earlier: one with "from: instanceStatus" (status.go) and the catalogue of
// Templates (catalogue.go). Errors are answered in errors.go alone, as metav1.Status.
//
// The package decides access by what kcp answers the caller and by nothing else; it never uses
// the provider's credential for that. It keeps no state that a restart would lose, and nothing
// that grows with the number of workspaces except entries of bounded caches.
package dataplane
