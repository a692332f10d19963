// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package dataplane is the HTTP server of the verbs: it takes a caller's request for a verb of
// an instance to the place on the runtime cluster that answers it, if the caller may.
//
// A request goes through these steps; chain.go names them in order. A step that is a package of its own
// says in its doc.go what enters, what leaves and what it must never see:
//
//	route      locate     the path, in any of its forms, into workspace, object and verb
//	identify   access     who calls (identify.go)
//	authorize  access     may they: GET and SelfSubjectAccessReview in the workspace, as the caller
//	contract   locate     which endpoint the Template declares for the verb
//	place      locate     which placement stands for the object: by UID, from informers
//	limit      limit      in flight, streams, rate, body (before, in access: what one caller asks of kcp)
//	wake       wake       an instance that sleeps (awake.go), and in lifecycle the record of its use
//	resolve    locate     the endpoint's reference into a Service, Secret or Pod of the placement
//	carry      upstream   the request to the pod, straight or through the API server, and its answer back
//	command    podexec    the mark of a command in a pod, and the end of what has it when the caller has gone
//	headers    headers    what may pass, both ways
//	answer     respond    writing that no caller can stall
//	end        record     metrics, audit log, access line, trace: from an Outcome
//
// Some verbs end earlier: one with "from: instanceStatus" (status.go), a password (password.go), a log that
// was kept (keptlog.go), preview links (preview_links.go), renewals (renew.go), the catalogues of
// Templates and of Baselines (catalogue.go, baselinecatalogue.go) and the verb claim of SandboxTemplates, which has no instance yet (claims.go, claim). Errors are package refusal's alone, and answered as metav1.Status.
//
// The package decides access by what kcp answers the caller and by nothing else; it never uses
// the provider's credential for that. It keeps no state that a restart would lose, and nothing
// that grows with the number of workspaces except entries of bounded caches.
package dataplane
