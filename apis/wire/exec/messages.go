// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package execwire

import (
	"strconv"
	"time"
)

// Session is a message of ChannelSession: first where the client is, later how much was dropped before
// what follows.
type Session struct {
	ID string `json:"id"`
	// Offset of the first byte that follows. Bytes of both outputs count.
	Offset int64 `json:"offset,omitempty"`
	Gap    int64 `json:"gap,omitempty"`
}

// Start is what messages of ChannelCommand carry: the parameters of a new command, which in an address have
// no room for long ones. Its arguments are UTF-8; others go into the address.
type Start struct {
	// Args are the program and its arguments.
	Args []string `json:"command"`
	// The others are the parameters of the same names.
	Dir     string `json:"dir,omitempty"`
	Stdin   bool   `json:"stdin,omitempty"`
	TTY     bool   `json:"tty,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`
	Columns uint16 `json:"columns,omitempty"`
}

// Size is a message of ChannelResize: the size of a terminal in characters, as Kubernetes writes it.
type Size struct {
	Width  uint16
	Height uint16
}

// Signal is a message of ChannelSignal.
type Signal struct {
	// Signal is a name such as SIGINT.
	Signal string `json:"signal"`
}

// Status is a message of ChannelStatus: the end of a command in the form that Kubernetes gives it.
type Status struct {
	Metadata struct{}       `json:"metadata"`
	Status   string         `json:"status"`
	Message  string         `json:"message,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Details  *StatusDetails `json:"details,omitempty"`
}

// StatusDetails has the causes of a failure.
type StatusDetails struct {
	Causes []StatusCause `json:"causes"`
}

// StatusCause is one of them.
type StatusCause struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

const (
	success    = "Success"
	reasonExit = "NonZeroExitCode"
	// reasonRuntime is what the kubelet writes of a command that a pod could not start.
	reasonRuntime = "InternalError"
	causeExitCode = "ExitCode"
	causeSignal   = "Signal"
)

// NewStatus returns the status of a command that exited with code, which is 128 and the signal's number
// if a signal ended it; signal is empty otherwise.
func NewStatus(exit int, signal string) Status {
	if exit == 0 {
		return Status{Status: success}
	}
	code := strconv.Itoa(exit)
	st := Status{
		Status: "Failure", Reason: reasonExit,
		Message: "command terminated with non-zero exit code: " + code,
		Details: &StatusDetails{Causes: []StatusCause{{Reason: causeExitCode, Message: code}}},
	}
	if signal != "" {
		st.Details.Causes = append(st.Details.Causes, StatusCause{Reason: causeSignal, Message: signal})
	}
	return st
}

// NewRefusal returns the status of a command that was not started. code is that of the answer which the same
// command in an address gets, exit what a shell exits with, or zero.
func NewRefusal(code, message string, exit int) Status {
	st := Status{Status: "Failure", Reason: code, Message: message}
	if exit != 0 {
		st.Details = &StatusDetails{Causes: []StatusCause{{Reason: causeExitCode, Message: strconv.Itoa(exit)}}}
	}
	return st
}

// Refusal returns the code of a status that [NewRefusal] made, and the exit code of a shell or zero. It is false of
// other statuses.
func (s *Status) Refusal() (code string, exit int, ok bool) {
	switch s.Reason {
	case "", reasonExit, reasonRuntime:
		return "", 0, false
	}
	exit, _ = s.ExitCode()
	return s.Reason, exit, s.Status != success
}

// ExitCode returns the exit code. It is false if the status has none, as that of a command that a pod
// could not start.
func (s *Status) ExitCode() (int, bool) {
	if s.Status == success {
		return 0, true
	}
	if s.Details == nil {
		return 0, false
	}
	for _, cause := range s.Details.Causes {
		if cause.Reason == causeExitCode {
			if code, err := strconv.Atoi(cause.Message); err == nil {
				return code, true
			}
		}
	}
	return 0, false
}

// List is the answer of GET /exec without parameters.
type List struct {
	Commands []Command `json:"commands"`
}

// Command is a command that a client began. One that has ended is remembered for a minute.
type Command struct {
	// ID is the value of ParamID.
	ID string `json:"id"`
	// Args are the program and its arguments, of which a runner sends 4 KiB.
	Args  []string  `json:"command"`
	Start time.Time `json:"startTime"`
	// TTY is set if it has a terminal, Attached if a client has it.
	TTY      bool `json:"tty,omitempty"`
	Attached bool `json:"attached,omitempty"`
	// ExitCode is nil while it runs.
	ExitCode *int `json:"exitCode,omitempty"`
}
