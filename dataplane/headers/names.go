// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// known is a header, or a cookie, that something in front of the data plane gives a meaning. A name
// that ends in an asterisk stands for all that begin so.
type known struct {
	name string
	// by names what adds it to requests, or obeys it in answers.
	by string
}

// headerSet is a set of header names for look-ups on the way of every request. Its names are
// canonical, as the maps of net/http are, and so must be those that are looked up.
type headerSet struct {
	names map[string]bool
	// prefixes are sorted, and none begins with another, so that only the last one that does not
	// sort behind a name can begin it.
	prefixes []string
}

func newHeaderSet(lists ...[]string) *headerSet {
	s := &headerSet{names: map[string]bool{}}
	var prefixes []string
	for _, name := range slices.Concat(lists...) {
		if prefix, open := strings.CutSuffix(name, "*"); open {
			prefixes = append(prefixes, canonicalPrefix(prefix))
		} else {
			s.names[http.CanonicalHeaderKey(name)] = true
		}
	}
	slices.Sort(prefixes)
	for _, prefix := range prefixes {
		if n := len(s.prefixes); n == 0 || !strings.HasPrefix(prefix, s.prefixes[n-1]) {
			s.prefixes = append(s.prefixes, prefix)
		}
	}
	return s
}

// canonicalPrefix is how the canonical forms of the names with a prefix begin.
func canonicalPrefix(prefix string) string {
	return http.CanonicalHeaderKey(prefix + "a")[:len(prefix)] // "x-" alone is canonical as it is
}

func (s *headerSet) has(name string) bool {
	if s.names[name] {
		return true
	}
	at, found := slices.BinarySearch(s.prefixes, name)
	return found || at > 0 && strings.HasPrefix(name, s.prefixes[at-1])
}

// namesOf lists the names of a table.
func namesOf(table []known) []string {
	names := make([]string, len(table))
	for i, k := range table {
		names[i] = k.name
	}
	return names
}

// ValidateNames reports an entry of a flag that is neither a name nor the beginning of names with
// an asterisk behind.
func ValidateNames(flag string, names []string) error {
	for _, name := range names {
		bare := strings.TrimSuffix(name, "*")
		if name == "" || bare != "" && !httpguts.ValidHeaderFieldName(bare) || strings.Contains(bare, "*") {
			return fmt.Errorf("%s %q is neither a name nor the beginning of one with an asterisk behind", flag, name)
		}
	}
	return nil
}
