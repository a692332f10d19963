// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package local

import "regexp"

// panicked is the first line that tells of a panic: one that apimachinery caught in a reconciliation, one that net/http
// caught in a request, or one that ended the process.
var panicked = regexp.MustCompile(`(?m)^.*"Observed a panic".*$|^.*http: panic serving.*$|^panic: .*$|^fatal error: .*$`)

// Panics returns the lines of a provider's log that tell of a panic. A reconciliation that panics is tried again, so
// that no test need fail by it.
func Panics(log string) []string { return panicked.FindAllString(log, -1) }
