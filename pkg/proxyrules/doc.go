// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxyrules decides to which backend a proxy in front of a Service leads a request.
//
// In: the document of the Service (package intercept). Out: a Table, which picks a backend for a request, or none for the
// baseline. A document is compiled as a whole or refused as a whole, with the field that is wrong.
//
//	parse.go    the document's bounds, names and addresses
//	table.go    the rules by the IDs of requests
//	baggage.go  the IDs in the header baggage
//	match.go    what else a request has to meet
//	budget.go   what comparing may cost
//
// The package is pure: it reads neither a clock nor a server. Its one source of chance is the choice among weighted backends.
//
// A request without the ID of a rule never meets the rule. So nothing in a match can take a request away from the baseline
// that did not ask for the sandbox: a path or a header that proxy and backend read in different ways leads only the
// requests of that sandbox elsewhere.
package proxyrules
