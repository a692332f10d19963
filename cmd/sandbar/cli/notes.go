// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// PrintNotes prints what calls of package session report on the way.
func PrintNotes(out io.Writer) session.Notes {
	m := &meter{out: out, terminal: Terminal(out)}
	return func(n session.Note) {
		switch n := n.(type) {
		case session.ComponentSkipped:
			Say(out, "%s has no directory %s, so the component %s is left alone", n.Project, n.Path, n.Component)
		case session.Created:
			Say(out, "the SandboxRunner %s has been created", n.Name)
		case session.Resumed:
			Say(out, "the SandboxRunner %s is being resumed", n.Name)
		case session.StateChanged:
			Say(out, "%s is %s", n.Name, n.Text)
		case session.Trusted:
			printTrusted(out, n)
		case session.CopyProgress:
			m.at(n)
		case session.CopyEnded:
			m.end()
		default:
			printCopyNote(out, n)
		}
	}
}

func printTrusted(out io.Writer, n session.Trusted) {
	verified := ""
	if n.CAHash != "" {
		verified = fmt.Sprintf("; its CA bundle has the SHA-256 that the binding %s names, %s", n.Binding, n.CAHash)
	}
	fmt.Fprintf(out, "%s may get your token from now on%s (%s).\n", n.URL, verified, n.File)
}

// printCopyNote prints what a copy reports other than how far it is.
func printCopyNote(out io.Writer, n session.Note) {
	switch n := n.(type) {
	case session.LeftOut:
		reason := n.Reason
		if reason == session.ReasonSparse {
			reason += ": copy it by itself with sandbar exec NAME -- cat PATH"
		}
		fmt.Fprintf(out, "left out %s: %s\n", termsafe.Line(n.Path), termsafe.Line(reason))
	case session.CopyContinued:
		where := "which was here already"
		if n.Upload {
			where = "which the sandbox has already"
		}
		fmt.Fprintf(out, "%s: goes on behind %s, %s\n", termsafe.Line(n.Path), BytesOf(n.Bytes), where)
	case session.CopyInterrupted:
		fmt.Fprintf(out, "the connection is lost (%s); it is tried again in %s\n", termsafe.Line(n.Err.Error()), n.Retry.Round(time.Second/10))
	}
}
