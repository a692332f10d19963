// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import "log/slog"

// Mode says which right a caller needs for a verb.
type Mode string

// Authorization modes.
const (
	// Both needs get on the instance and the verb's own subresource.
	Both Mode = "both"
	// Subresource asks for the verb's subresource alone. The instance is still read
	// as the caller, since only that tells its UID: a caller who may not read it must name
	// the workspace by logical cluster name, so that the placement can be found without.
	Subresource Mode = "subresource"
	// InstanceGet needs get on the instance and nothing else.
	InstanceGet Mode = "instanceGet"
)

// Options configure who may do what. None has a default here.
type Options struct {
	// Mode says which right a caller needs.
	Mode Mode
	// CacheSize is how many answers of kcp are kept, Concurrency how many callers are authorized at once.
	CacheSize, Concurrency int
	// IdentityWorkspace is where kcp is asked whose a token is.
	IdentityWorkspace string
	// WorkspaceAuthentication is set where a workspace may know tokens that kcp as a whole does not.
	WorkspaceAuthentication bool
	// Logger is told of an identity workspace that is none.
	Logger *slog.Logger
}
