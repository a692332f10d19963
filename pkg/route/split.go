// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// What an HTTPRoute holds, by its CustomResourceDefinition. It also has at most 64 matches in a rule, and a SandboxRoute
// has fewer.
const (
	maxRouteRules   = 16
	maxRouteMatches = 128
)

// split shares rules out among HTTPRoutes, in their order, as few as that needs. With the bounds of a SandboxRoute there are
// 5 at most, so that the order of their names is that of their numbers.
func split(rules []httpRule) [][]httpRule {
	var parts [][]httpRule
	matches := 0
	for _, rule := range rules {
		last := len(parts) - 1
		if last < 0 || len(parts[last]) == maxRouteRules || matches+len(rule.Matches) > maxRouteMatches {
			parts, matches = append(parts, nil), 0
			last++
		}
		parts[last] = append(parts[last], rule)
		matches += len(rule.Matches)
	}
	return parts
}

// nameHash is how many characters of a hash stand in a name that was cut.
const nameHash = 10

// Name is the name of an HTTPRoute of a SandboxRoute, by its index from 0 on: the SandboxRoute's own name for the first, then
// with -2 and so on. A name that would be too long is cut, and has a hash of the whole in it.
//
// <route>-2 may be the name of another SandboxRoute too: what writes an HTTPRoute has to see whose it is.
func Name(route string, index int) string {
	suffix := ""
	if index > 0 {
		suffix = fmt.Sprintf("-%d", index+1)
	}
	return cut(route, validation.DNS1123SubdomainMaxLength-len(suffix)) + suffix
}

// cut shortens a name to at most a number of characters.
func cut(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:most-nameHash-1], "-.") + "-" + hex.EncodeToString(sum[:])[:nameHash]
}
