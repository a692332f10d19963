// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/sandbar-dev/sandbar/client"
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
	// lost is true from when the connection was lost until it is there again.
	lost bool
	text []byte
}

func newLogPrinter(out, notes io.Writer, asJSON, timestamps bool) *logPrinter {
	return &logPrinter{out: out, notes: notes, json: asJSON, timestamps: timestamps, terminal: terminal(out)}
}

func (p *logPrinter) print(e client.LogEvent) error {
	switch e.Type {
	case client.LogOutput:
		return p.record(e)
	case client.LogGap:
		say(p.notes, "%d bytes of the log were dropped before they could be read", e.Record.Lost)
		return p.record(e)
	case client.LogReplaced:
		say(p.notes, "the runner was started anew: what it had not told yet of the log is gone")
	case client.LogDisconnected:
		p.lost = true
		reason := "the other side ended it"
		if e.Err != nil {
			reason = termsafe.String(e.Err.Error())
		}
		say(p.notes, "the connection to the log is lost (%s); trying again in %s", reason, e.Retry.Round(10*time.Millisecond))
	case client.LogConnected:
		if p.lost {
			say(p.notes, "the log goes on")
		}
		p.lost = false
	}
	return nil
}

func (p *logPrinter) record(e client.LogEvent) error {
	p.text = p.text[:0]
	switch r := &e.Record; {
	case p.json:
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encoding a record: %w", err)
		}
		p.text = append(append(p.text, line...), '\n')
	case len(r.Data) == 0:
		return nil
	default:
		source := fmt.Sprintf("%s/%d", r.Stream, r.Attempt)
		if p.open && p.source != source {
			p.text = append(p.text, '\n')
			p.open = false
		}
		if !p.open && p.timestamps && !r.Time.IsZero() {
			p.text = append(r.Time.AppendFormat(p.text, timestampLayout), ' ')
		}
		if p.terminal {
			p.text = termsafe.Append(p.text, r.Data)
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
