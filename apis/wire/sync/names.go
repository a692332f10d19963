// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

// What follows a batch: the value of restart in OpBegin, and in other calls that may restart the app.
const (
	RestartNever = "never"
	// RestartLater in OpBegin has what follows a batch, a restart or a Template's commands, wait for
	// the next batch that says something else: all but the last of several say it.
	RestartLater = "later"
	// RestartStart starts an app that does not run or does not stay up.
	RestartStart = "start"
	// RestartAuto restarts the app if something changed.
	RestartAuto   = "auto"
	RestartAlways = "always"
)

// The parameters of GET /files and GET /changes.
const (
	// ParamExclude is a name that is left out at any depth, given once for each.
	ParamExclude = "exclude"
	// ParamStaged, a digest, asks for Staged.
	ParamStaged = "staged"
	// ParamChunks, a boolean, asks for the Chunks of a file.
	ParamChunks = "chunks"
)

// Codes of answers after which a client does something else than give up.
const (
	CodeFileNotFound = "FileNotFound"
	// CodeRequestTooLarge and CodeBatchTooLarge mean that the same in several requests may be taken.
	CodeRequestTooLarge = "RequestTooLarge"
	CodeBatchTooLarge   = "BatchTooLarge"
	// CodeOffsetMismatch means that a part of staged content does not begin where the part before
	// ended, or that another request works with the content. Asking how much there is helps.
	CodeOffsetMismatch = "OffsetMismatch"
)

// ExecutableHeader says beside the content of a file, by "true" or "false", whether the file is a program. Runners of
// earlier versions do not send it.
const ExecutableHeader = "X-Sandbox-Executable"
