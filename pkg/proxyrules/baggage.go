// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import "strings"

// entry is the key of baggage whose value is the ID (pkg/route.Selector).
const entry = "sandbox"

// eachID calls yield with each value that a member of baggage gives for the entry sandbox, until yield returns false. A
// value may be anything that has neither a comma, a semicolon, a space nor a tab in it.
//
// It finds the IDs that the expression of pkg/route.Selector matches with the lines of the header, joined by a comma: a
// member is what stands between two commas, its properties begin at a semicolon, and spaces and tabs may stand around the
// key and the value. A key with percent-encoding is not the entry.
func eachID(lines []string, yield func(id string) bool) {
	for _, line := range lines {
		for line != "" {
			member, rest, _ := strings.Cut(line, ",")
			line = rest
			if id, ok := idOf(member); ok && !yield(id) {
				return
			}
		}
	}
}

// idOf returns the value of a member of baggage that is the entry.
func idOf(member string) (string, bool) {
	value, ok := strings.CutPrefix(trimLeft(member), entry)
	if !ok {
		return "", false
	}
	if value, ok = strings.CutPrefix(trimLeft(value), "="); !ok {
		return "", false
	}
	value = trimLeft(value)
	end := strings.IndexAny(value, "; \t")
	if end < 0 {
		return value, value != ""
	}
	if behind := trimLeft(value[end:]); behind != "" && behind[0] != ';' {
		return "", false // other words behind a space
	}
	return value[:end], end > 0
}

func trimLeft(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}
