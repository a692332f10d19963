// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import "strings"

// wildcard begins a hostname that means all names below the rest, at any depth (Gateway API).
const wildcard = "*."

func isWildcard(hostname string) bool { return strings.HasPrefix(hostname, wildcard) }

// covers reports whether all names that one hostname means are among those of another. An empty one means all names.
func covers(outer, inner string) bool {
	switch {
	case outer == "" || outer == inner:
		return true
	case !isWildcard(outer):
		return false
	}
	below := outer[1:] // with its dot
	name := strings.TrimPrefix(inner, "*")
	if isWildcard(inner) {
		return strings.HasSuffix(name, below)
	}
	return len(name) > len(below) && strings.HasSuffix(name, below)
}

// intersect reports whether two hostnames have a name in common: of names and wildcards, one then covers the other.
func intersect(a, b string) bool { return covers(a, b) || covers(b, a) }
