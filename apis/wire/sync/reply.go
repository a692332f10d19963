// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

// The phases of a Reply.
const (
	PhaseSynced = "Synced"
	PhaseStaged = "Staged"
)

// Reply is the body of POST /sync when the batch was applied. What went wrong
// with the restart afterwards is part of it, and no failure of the sync: the files
// are changed.
type Reply struct {
	Phase        string   `json:"phase"`
	Revision     int64    `json:"revision"`
	Changed      []string `json:"changed"`
	Unchanged    int      `json:"unchanged"`
	Deleted      []string `json:"deleted"`
	Restarted    bool     `json:"restarted"`
	RestartError *Error   `json:"restartError,omitempty"`
	// Reload reports on the rules of the Template that the changed paths set off.
	Reload *Reload `json:"reload,omitempty"`
	// Staged is there when the body had a part of a content, and no batch.
	Staged *Staged `json:"staged,omitempty"`
}

// ReloadState is the state of the rules that a sync set off.
type ReloadState string

// The states.
const (
	ReloadRunning ReloadState = "Running"
	ReloadDone    ReloadState = "Done"
	ReloadFailed  ReloadState = "Failed"
)

// Reload reports on the rules that a sync set off.
type Reload struct {
	State ReloadState `json:"state"`
	// Rules are the numbers of the rules, from 0, in the order of the Template.
	Rules []int `json:"rules"`
	// Message says which command failed, and how.
	Message   string `json:"message,omitempty"`
	Restarted bool   `json:"restarted"`
}

// Error is the body of an answer that refuses a call. A client decides by Code; Message is for people.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Applied names the paths that remain changed, of a batch that failed in the middle.
	Applied []string `json:"applied,omitempty"`
	// Conflicts has every path at which the tree is not as a batch needs it.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Revision is the current one, when the batch was for another.
	Revision *int64 `json:"revision,omitempty"`
}
