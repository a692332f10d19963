// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

const (
	// mostLines is how many files of one settling are told one by one; of more, how many.
	mostLines = 20
	// mostNames is how many waiting files a lost connection names.
	mostNames = 5
)

// losses are the reasons for which a sandbox cannot be reached at the moment. Each is told once, and
// not with every try, also if two connections are lost for it. The zero value is ready, and so is nil.
type losses struct{ told map[string]string }

// isNew reports whether a reason was not told yet, or since then something else waits.
func (l *losses) isNew(reason, waiting string) bool {
	if l == nil {
		return true
	}
	before, known := l.told[reason]
	if known && (waiting == "" || waiting == before) {
		return false
	}
	if l.told == nil {
		l.told = map[string]string{}
	}
	l.told[reason] = waiting
	return true
}

// end forgets all, when the sandbox was reached.
func (l *losses) end() {
	if l != nil {
		clear(l.told)
	}
}

// eventPrinter tells a person what a sync does.
type eventPrinter struct {
	out     io.Writer
	quiet   bool // of single files
	verbose bool // also of what is pending and being sent
	// reported: what stays as it is appears in a report, and not here.
	reported bool

	// stateTold: that the sandbox is suspended is told by somebody else.
	stateTold bool
	// decides is the command that decides conflicts once this sync has ended, told with the first; empty for none.
	decides string

	losses  *losses
	pending map[string]bool
	done    []devsync.Event
}

func (p *eventPrinter) print(e devsync.Event) {
	switch e.Type {
	case devsync.EventFile:
		p.file(e)
	case devsync.EventLost:
		p.flush()
		waiting := ""
		if len(p.pending) > 0 {
			waiting = "; waiting: " + p.waiting()
		}
		if reason := termsafe.Line(e.Reason); (!e.Suspended || !p.stateTold) && p.losses.isNew(reason, waiting) {
			cli.Say(p.out, "the sandbox cannot be reached (%s); it is tried again until it can%s", reason, waiting)
		}
	case devsync.EventResumed:
		p.losses.end()
		cli.Say(p.out, "the sandbox can be reached again")
	case devsync.EventProgress:
		if !p.quiet {
			cli.Say(p.out, "%s: %s of %s", termsafe.Line(e.Path), cli.BytesOf(e.Bytes), cli.BytesOf(e.Size))
		}
	case devsync.EventNote, devsync.EventUnsettled:
		cli.Say(p.out, "%s", termsafe.String(e.Reason))
	case devsync.EventSettled:
		p.flush()
		p.settled(e)
	}
}

func (p *eventPrinter) file(e devsync.Event) {
	if p.pending == nil {
		p.pending = map[string]bool{}
	}
	switch e.State {
	case devsync.Pending, devsync.Sending:
		p.pending[e.Path] = true
		if p.verbose {
			p.line(e)
		}
		return
	case devsync.FileApplied, devsync.FileReceived, devsync.FileRefused, devsync.FileWithheld, devsync.FileConflict, devsync.FileDiffers:
	}
	delete(p.pending, e.Path)
	switch {
	case p.quiet, p.reported && e.State != devsync.FileApplied && e.State != devsync.FileReceived:
	case e.State == devsync.FileApplied && len(p.done) >= mostLines, e.State == devsync.FileReceived && len(p.done) >= mostLines:
		p.done = append(p.done, e) // told as a number
	default:
		p.line(e)
		p.done = append(p.done, e)
	}
}

func (p *eventPrinter) line(e devsync.Event) {
	what := string(e.State)
	if e.Deleted {
		what += " (deletion)"
	}
	if e.Reason != "" {
		what += ": " + termsafe.Line(e.Reason)
	}
	if e.State == devsync.FileWithheld {
		what += "; " + howToSend(e.Path)
	}
	cli.Say(p.out, "%s %s", termsafe.Line(e.Path), what)
}

// howToSend says how a path is sent that may be a secret.
func howToSend(path string) string {
	return fmt.Sprintf("--send-secret '/%s' sends it", termsafe.Line(asPattern.Replace(path)))
}

// asPattern makes a path a pattern of a .gitignore that means it alone.
var asPattern = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`)

// flush tells of those that were not told one by one.
func (p *eventPrinter) flush() {
	if more := len(p.done) - mostLines; more > 0 {
		cli.Say(p.out, "and %s", cli.Counted(more, "more file"))
	}
	p.done = nil
}

func (p *eventPrinter) settled(e devsync.Event) {
	clear(p.pending)
	rest := []string{}
	for _, r := range []struct {
		n    int
		what string
	}{{e.Conflicts, cli.Counted(e.Conflicts, "conflict")}, {e.Refused, fmt.Sprintf("%d refused", e.Refused)}, {e.Withheld, fmt.Sprintf("%d withheld", e.Withheld)}, {e.Differing, fmt.Sprintf("%d changed in the sandbox", e.Differing)}} {
		if r.n > 0 {
			rest = append(rest, r.what)
		}
	}
	state := "in sync"
	if len(rest) > 0 {
		state = "in sync but for " + strings.Join(rest, ", ")
	}
	cli.Say(p.out, "%s (%s, %s sent)", state, cli.Counted(e.Files, "file"), cli.Counted(e.Bytes, "byte"))
	if e.Conflicts > 0 && p.decides != "" {
		cli.Say(p.out, "what is in conflict stays as it is on both sides; when this has ended, %s decides", p.decides)
		p.decides = ""
	}
}

func (p *eventPrinter) waiting() string {
	names := make([]string, 0, len(p.pending))
	for path := range p.pending {
		names = append(names, termsafe.Line(path))
	}
	slices.Sort(names)
	if more := len(names) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %s", strings.Join(names[:mostNames], ", "), cli.Counted(more, "more file"))
	}
	return strings.Join(names, ", ")
}
