// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package intercept decides how a proxy comes in front of a Service of a Baseline, and how the Service gets its pods back.
//
// In: the Service, what the SandboxRoutes that name it ask for, and what there is on the runtime cluster. Out: the objects of the
// proxies, the document that they read (apis/intercept), the Service as it is to be, and the next step on the way. A Service
// that cannot be intercepted is refused with a *route.RefusedError.
//
// The package is pure: it reads neither a clock nor a server, and equal input has equal output.
//
//	names.go     what the objects are called, and how they are told
//	check.go     which Services cannot be intercepted, and which routes a Baseline admits
//	ports.go     where a proxy listens, and what the ports speak
//	intent.go    what one SandboxRoute asks of the proxies of one Service
//	document.go  what the proxies of a Service do, by all routes that name it
//	order.go     which of two rules comes first
//	render.go    the proxies, and the Service that has the original pods
//	selector.go  the switch of the live Service, and the way back
//	manager.go   who has changed a Service
//	state.go     what is remembered of an interception
//	next.go      the next step, in and out
//	attach.go    the steps in
//	detach.go    the steps out
//
// docs/adr/0062-intercepting-a-service.md has the reasons.
package intercept
