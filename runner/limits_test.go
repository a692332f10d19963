// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"fmt"
	"testing"

	execwire "github.com/sandbar-dev/sandbar/apis/wire/exec"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
	"github.com/sandbar-dev/sandbar/runner/execs"
	"github.com/sandbar-dev/sandbar/runner/ringlog"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const limitsDocument = "../docs/limits.md"

// The grace before KILL is a constant of execs, whose own test compares it.
func TestTheTableOfLimitsOfCommandsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, limitsDocument, "Commands in a sandbox", true,
		limitstable.Limit{Name: "commands that run at once", Number: limitstable.Count(execs.DefaultRunning), Says: []string{(&execs.LimitError{Limit: execs.DefaultRunning}).Error()}},
		limitstable.Limit{Name: "clients and observers of commands", Number: limitstable.Count(maxExecs)},
		limitstable.Limit{Name: "a command without a client", Number: limitstable.Duration(execs.DefaultDetached)},
		limitstable.Limit{Name: "how long a command that has ended is remembered", Number: fmt.Sprintf("%s, and %d commands in all", limitstable.Duration(execs.DefaultRetained), 2*execs.DefaultRunning)},
		limitstable.Limit{Name: "output that waits for a client", Number: limitstable.Bytes(ringlog.MinCapacity)},
		limitstable.Limit{Name: "arguments of a command in the list", Number: limitstable.Bytes(maxListedCommand)},
		limitstable.Limit{Name: "a message of a client, with its channel", Number: limitstable.Bytes(execwire.MaxInputBytes)},
		limitstable.Limit{Name: "a command in messages, in JSON", Number: limitstable.Bytes(execwire.MaxCommandBytes), Says: []string{fmt.Sprintf("more than %d bytes", execwire.MaxCommandBytes)}},
		limitstable.Limit{Name: "how long the messages of a command may take to arrive", Number: limitstable.Duration(execCommandWait)},
		limitstable.Limit{Name: "how long a client that takes nothing keeps a command from ending", Number: "4 s"},
	)
}

func TestTheTableOfLimitsOfFilesHasTheRunnersNumbers(t *testing.T) {
	limits := workspace.DefaultLimits()
	limitstable.Check(t, limitsDocument, "Files", false,
		limitstable.Limit{Name: "a file (`SANDBAR_MAX_FILE_BYTES`)", Number: limitstable.Bytes(limits.FileBytes), Says: []string{fmt.Sprintf("the limit is %d bytes", limits.FileBytes)}},
		limitstable.Limit{Name: "content of a batch, without staged content (`SANDBAR_MAX_BATCH_BYTES`)", Number: limitstable.Bytes(limits.BatchBytes)},
		limitstable.Limit{Name: "a workspace (`SANDBAR_MAX_WORKSPACE_BYTES`, `…_FILES`), with what is staged", Number: limitstable.Bytes(limits.TotalBytes) + ", " + limitstable.Count(limits.TotalFiles)},
		limitstable.Limit{Name: "contents that are staged and wait", Number: limitstable.Count(workspace.MaxUploads)},
		limitstable.Limit{Name: "how long staged content waits", Number: limitstable.Duration(workspace.UploadAge) + " after its last part"},
		limitstable.Limit{Name: "a file whose chunks are listed for a delta", Number: limitstable.Bytes(maxChunkedBytes)},
		limitstable.Limit{Name: "what the container's own log gets of an app's output", Number: limitstable.Bytes(mirrorRate) + " a second, " + limitstable.Bytes(mirrorBurst) + " at once"},
	)
}
