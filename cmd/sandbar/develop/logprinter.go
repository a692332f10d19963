// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package develop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// timestampLayout has a fixed width, so that lines stand under each other.
const timestampLayout = "2006-01-02T15:04:05.000Z07:00"

// logPrinter prints a log: its bytes to out, what happened to the reading to notes.
type logPrinter struct {
	out, notes io.Writer
	json       bool
	timestamps bool
	terminal   bool
	// A line of source began and has not ended: two streams never share a line.
	open   bool
	source string
	// lost is true from when the connection was lost until it is there again, since since.
	lost  bool
	since time.Time
	// begun is true from when the log was read first: what is not there yet is not lost.
	begun  bool
	losses *losses
	// stateTold: that the sandbox is suspended, or not ready, is told by somebody else.
	stateTold bool
	// broke is how a connection broke, until the next try shows why; empty for none.
	broke string
	text  []byte
	// output is how far the line of source is on a terminal.
	output termsafe.Output
	now    func() time.Time
	// component is that of the log, for JSON; empty for an instance's own.
	component string
}

// of has the log be that of a component: its name stands before each line, or in each object.
func (p *logPrinter) of(component string, out, notes io.Writer) {
	p.component = component
	p.notes = &linePrefix{out: notes, prefix: component + " | ", terminal: cli.Terminal(p.notes)}
	if p.json {
		p.out = out
		return
	}
	p.out = &linePrefix{out: out, prefix: component + " | ", terminal: p.terminal}
}

// replacedWithin is how long a pod that is replaced may not accept connections before its state is told.
const replacedWithin = 10 * time.Second

func newLogPrinter(out, notes io.Writer, asJSON, timestamps bool) *logPrinter {
	return &logPrinter{out: out, notes: notes, json: asJSON, timestamps: timestamps, terminal: cli.Terminal(out), losses: &losses{}, now: time.Now}
}

func (p *logPrinter) print(e client.LogEvent) error {
	switch e.Type {
	case client.LogOutput:
		return p.record(e)
	case client.LogGap:
		cli.Say(p.notes, "%d bytes of the log were dropped before they could be read", e.Record.Lost)
		return p.record(e)
	case client.LogKept:
		cli.Say(p.notes, "it is suspended; this is the end of its log as it was at %s", e.Record.Time.Local().Format(time.DateTime))
	case client.LogReplaced:
		if p.begun {
			cli.Say(p.notes, "the runner was started again; what it had not sent of the log until then is gone")
		}
	case client.LogEnded:
		p.ended(e.Message)
	case client.LogDisconnected:
		p.disconnected(e)
	case client.LogConnected:
		p.tellBroken()
		if p.lost && p.begun {
			cli.Say(p.notes, "the log goes on")
		}
		p.lost, p.begun = false, true
		p.losses.end()
	}
	return nil
}

// ended tells how a container ended.
func (p *logPrinter) ended(message string) {
	p.broke, p.lost, p.since = "", true, p.now()
	if message == "" {
		cli.Say(p.notes, "the container ended; the log goes on when the next one writes something")
		return
	}
	cli.Say(p.notes, "the container ended: %s; the log goes on when the next one writes something", termsafe.Line(message))
}

// disconnected tells why the log is not being read. A connection that just breaks says nothing of the
// reason: the next try, which is made at once, may have it.
func (p *logPrinter) disconnected(e client.LogEvent) {
	if !p.lost {
		p.lost, p.since = true, p.now()
	}
	var answer *client.CallError
	switch isAnswer := errors.As(e.Err, &answer); {
	case isAnswer && p.stateTold && (answer.Suspended() || p.begun && answer.Code == http.StatusConflict && !answer.Sandbox):
		p.broke = "" // the instance is suspended, or its pod is replaced: its state says so
	case isAnswer && p.stateTold && p.begun && answer.Code == http.StatusBadGateway && !answer.Sandbox && p.now().Sub(p.since) < replacedWithin:
		p.broke = "" // most likely as well, and its state is about to say so
	case isAnswer:
		p.broke = ""
		p.tellLoss(cli.ReasonIn(e.Err))
	case p.broke == "" && p.begun:
		p.broke = brokenBy(e.Err)
	default:
		p.tellBroken()
		p.tellLoss(brokenBy(e.Err))
	}
}

// brokenBy says how a connection broke. HTTP/2's words for a stream that was ended help nobody.
func brokenBy(err error) string {
	if err == nil || strings.Contains(err.Error(), "stream error: ") || strings.Contains(err.Error(), "http2: ") {
		return "the other side ended it"
	}
	return cli.ReasonIn(err)
}

// tellBroken tells of a connection that broke, if that was not told.
func (p *logPrinter) tellBroken() {
	if p.broke != "" {
		p.tellLoss(p.broke)
		p.broke = ""
	}
}

func (p *logPrinter) tellLoss(reason string) {
	switch {
	case !p.losses.isNew(reason, ""):
	case p.begun:
		cli.Say(p.notes, "the connection to the log is lost (%s); it is tried again until it is there", reason)
	default:
		cli.Say(p.notes, "waiting for the log (%s)", reason)
	}
}

func (p *logPrinter) record(e client.LogEvent) error {
	p.text = p.text[:0]
	switch r := &e.Record; {
	case p.json:
		line, err := p.encode(r)
		if err != nil {
			return fmt.Errorf("encoding a record: %w", err)
		}
		p.text = append(append(p.text, line...), '\n')
	case len(r.Data) == 0:
		return nil
	default:
		source := fmt.Sprintf("%s/%d", r.Stream, r.Attempt)
		if p.open && p.source != source {
			p.text = append(p.output.EndLine(p.text), '\n')
			p.open = false
		}
		var prefix []byte
		if p.timestamps && !r.Time.IsZero() {
			prefix = append(r.Time.AppendFormat(nil, timestampLayout), ' ')
		}
		if !p.open {
			p.text = append(p.text, prefix...)
		}
		if p.terminal {
			p.text = p.output.Append(p.text, r.Data, prefix)
		} else {
			p.text = append(p.text, r.Data...)
		}
		p.open, p.source = r.Data[len(r.Data)-1] != '\n', source
	}
	if _, err := p.out.Write(p.text); err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}

// encode is a record as JSON, with the component first if the log is one's.
func (p *logPrinter) encode(r *logwire.Record) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil || p.component == "" {
		return line, err //nolint:wrapcheck // the caller says what it is about
	}
	name, err := json.Marshal(p.component)
	return slices.Concat([]byte(`{"component":`), name, []byte(","), bytes.TrimPrefix(line, []byte("{"))), err //nolint:wrapcheck // as above
}

// finish prints what was held of a log that has ended.
func (p *logPrinter) finish() error {
	_, err := p.out.Write(p.output.EndLine(nil))
	if lines, ok := p.out.(*linePrefix); ok && err == nil {
		err = lines.finish()
	}
	if err != nil {
		return fmt.Errorf("writing the log: %w", err)
	}
	return nil
}
