// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/sandbar-dev/sandbar/install"
)

// A table of what was not done must not be read, or copied, as one of what was.
func TestWhatADryRunPrintsIsMarked(t *testing.T) {
	report := install.Report{Entries: []install.Entry{
		{Where: "kcp", Kind: "Template", Name: "redis", Action: install.Created},
		{Where: "kcp", Kind: "APIExport", Name: "sandbar.dev", Action: install.Unchanged},
	}, Notes: []string{"DNS is there"}}
	for dryRun, want := range map[bool]string{
		false: "WHERE   KIND        NAME          ACTION\nkcp     Template    redis         created\nkcp     APIExport   sandbar.dev   unchanged\nDNS is there\n",
		true: "DRY RUN: nothing has been changed. Without --dry-run, this would happen:\n" +
			"WHERE   KIND        NAME          ACTION\nkcp     Template    redis         would be created\nkcp     APIExport   sandbar.dev   unchanged\nDNS is there\n",
	} {
		var out bytes.Buffer
		if printReport(&out, report, dryRun); out.String() != want {
			t.Errorf("dry run %t prints\n%s", dryRun, out.String())
		}
	}
}
