// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package access decides who may do what: it finds out who calls, asks kcp as that caller, keeps kcp's
// answers for some seconds, and bounds what one caller may cost kcp.
//
//	token.go          the bearer token of a request
//	requestheader.go  which front proxies say who the caller is
//	authenticate.go   whose a token is: asked of kcp once, before anything is asked about a workspace
//	callerlimit.go    how much one caller, or one address, may ask
//	question.go       what is asked, and the key under which its answer is kept
//	authorize.go      GET and SelfSubjectAccessReview in the workspace, as the caller
//
// What enters is a request's credential and a Question about an object; what leaves is a Grant with the
// object's identity, or a refusal that is the same for what exists and for what does not. It must never
// see the runtime cluster, and it never answers with what the provider's own credential may read.
package access
