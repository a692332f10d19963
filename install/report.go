// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

// Action is what became of an object.
type Action string

// Actions. With Options.DryRun they say what would become of it.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
	Written   Action = "written"
	Deleted   Action = "deleted"
)

// Entry is one object or file of a report.
type Entry struct {
	// Where is "kcp", "runtime" or "file".
	Where string
	// Kind is the object's kind.
	Kind string
	// Name is namespace/name, name, or the path of a file.
	Name string
	// Action is what became of it.
	Action Action
}

// Report tells what Init did, in order.
type Report struct {
	Entries []Entry
	// Notes say what Init found on the runtime cluster and set accordingly, a sentence each.
	Notes []string
}

func (r *Report) add(where, kind, name string, action Action) {
	r.Entries = append(r.Entries, Entry{where, kind, name, action})
}
