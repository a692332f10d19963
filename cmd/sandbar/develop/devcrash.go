// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/session"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// crash is what dev finds out about an app that does not stay up.
type crash struct {
	// ended says how the app ended the last time; empty if that is not known.
	ended string
	// lines are the last ones of the start that ended last.
	lines []string
	// lacking: a program or a module was not found.
	lacking bool
}

// lastExit is how the app ended the last time, as the runner says it in the verb process.
type lastExit struct {
	Attempt         uint32
	Code            int
	Signal, Message string
	// Reason is Completed, Error, Signaled, Stopped or StartFailed.
	Reason string
}

// notFound is what a shell exits with when there is no such program.
const notFound = 127

// explain says an end in words; empty for one that the runner itself asked for.
func (e *lastExit) explain() string {
	switch e.Reason {
	case "Completed":
		return "your program ends, with exit code 0: what serves has to keep running"
	case "Error":
		return fmt.Sprintf("your program ends with exit code %d", e.Code)
	case "Signaled":
		return "your program is ended by " + termsafe.Line(e.Signal)
	case "StartFailed":
		return "your program cannot be started: " + termsafe.Line(e.Message)
	}
	return ""
}

// crashOf asks the runner and the log. What cannot be asked is left out: the instance's condition says
// something too.
func crashOf(ctx context.Context, i *client.Instance) crash {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var process struct {
		Crashing bool
		LastExit *lastExit
	}
	var c crash
	attempt := uint32(0)
	if i.Has("process") && i.DoJSON(ctx, client.Request{Verb: "process"}, nil, &process) == nil && process.Crashing && process.LastExit != nil {
		c.ended, attempt = process.LastExit.explain(), process.LastExit.Attempt
	}
	c.lines = lastLinesOf(ctx, i, attempt)
	c.lacking = process.LastExit != nil && process.LastExit.Code == notFound || slices.ContainsFunc(c.lines, saysNotFound)
	return c
}

// lastLinesOf reads the last lines of the start of the app that ended last, or of the newest start if ended is
// 0 or that one's are not there. The next start may have begun to write: its first lines explain no end. That
// the log cannot be read is said by what follows it.
func lastLinesOf(ctx context.Context, i *client.Instance, ended uint32) []string {
	count := tailLines
	texts, newest := map[uint32][]byte{}, ended
	for e, err := range i.Logs(ctx, client.LogOptions{Tail: &count}) {
		if err != nil {
			break
		}
		if e.Type == client.LogOutput {
			newest = max(newest, e.Record.Attempt)
			texts[e.Record.Attempt] = append(texts[e.Record.Attempt], e.Record.Data...)
		}
	}
	text := texts[ended]
	if len(text) == 0 {
		text = texts[newest]
	}
	if len(text) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[max(0, len(lines)-lastLines):]
}

// complaints are what shells, Node, Python and Go print of a program or a module that is not there.
var complaints = []string{
	": not found", "command not found", "Cannot find module", "Cannot find package", "ERR_MODULE_NOT_FOUND",
	"ModuleNotFoundError", "No module named", "no required module provides package", "cannot find module providing package",
}

// saysNotFound reports whether a line complains of a program or a module that is not there.
func saysNotFound(line string) bool {
	return slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(line, c) })
}

// crashesOf puts together what there is of the parts of an instance.
func crashesOf(ctx context.Context, parts []session.Part) crash {
	var all crash
	var ended []string
	for _, p := range parts {
		c := crashOf(ctx, p.Instance)
		if c.ended != "" && p.Component != "" {
			c.ended = p.Component + ": " + c.ended
		}
		if c.ended != "" {
			ended = append(ended, c.ended)
		}
		all.lines, all.lacking = append(all.lines, c.lines...), all.lacking || c.lacking
	}
	all.ended = strings.Join(ended, "; ")
	return all
}
