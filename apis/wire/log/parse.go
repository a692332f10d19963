// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package logwire

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Parse reads one record. What AppendJSON writes it reads without package json, which takes six
// times as long; whatever else there is, package json decides about.
func Parse(line []byte) (Record, error) {
	if r, ok := parseOwn(line); ok {
		return r, nil
	}
	var in record
	if err := json.Unmarshal(line, &in); err != nil {
		return Record{}, err
	}
	r := Record{Offset: in.Offset, Time: in.Time, Stream: in.Stream, Attempt: in.Attempt, Data: in.Data, Lost: in.Lost}
	if in.Text != "" {
		r.Data = []byte(in.Text)
	}
	return r, nil
}

// parseOwn reads an output record exactly as AppendJSON writes it for text. What it is not sure
// of, it leaves: a sandbox may send anything.
func parseOwn(line []byte) (r Record, ok bool) {
	p := parser{rest: bytes.TrimSuffix(line, []byte("\n"))}
	p.literal(`{"offset":`)
	r.Offset = p.number()
	p.literal(`,"time":"`)
	r.Time = p.time()
	p.literal(`","stream":"`)
	switch {
	case bytes.HasPrefix(p.rest, []byte(`stdout"`)):
		r.Stream = "stdout"
	case bytes.HasPrefix(p.rest, []byte(`stderr"`)):
		r.Stream = "stderr"
	default:
		return Record{}, false
	}
	p.rest = p.rest[len(r.Stream):]
	p.literal(`","attempt":`)
	attempt := p.number()
	p.literal(`,"text":"`)
	r.Data = p.text()
	p.literal(`"}`)
	r.Attempt = uint32(attempt)
	return r, !p.failed && len(p.rest) == 0 && int64(r.Attempt) == attempt
}

// parser takes a line apart; once it has failed, nothing that it returned counts.
type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) literal(text string) {
	if !bytes.HasPrefix(p.rest, []byte(text)) {
		p.failed = true
		return
	}
	p.rest = p.rest[len(text):]
}

// number reads a positive integer as JSON has it, of up to 18 digits.
func (p *parser) number() (n int64) {
	i := 0
	for ; i < len(p.rest) && i < 18 && '0' <= p.rest[i] && p.rest[i] <= '9'; i++ {
		n = n*10 + int64(p.rest[i]-'0')
	}
	p.failed = p.failed || i == 0 || p.rest[0] == '0' && i > 1
	p.rest = p.rest[i:]
	return n
}

func (p *parser) time() (t time.Time) {
	end := max(0, bytes.IndexByte(p.rest, '"'))
	p.failed = p.failed || t.UnmarshalText(p.rest[:end]) != nil
	p.rest = p.rest[end:]
	return t
}

// text reads a string up to its closing quote.
func (p *parser) text() []byte {
	end := bytes.IndexByte(p.rest, '"')
	for end > 0 && p.rest[end-1] == '\\' { // perhaps one of the text; unescape finds out
		next := bytes.IndexByte(p.rest[end+1:], '"')
		if next < 0 {
			break
		}
		end += 1 + next
	}
	if end < 0 || !utf8.Valid(p.rest[:end]) {
		p.failed = true
		return nil
	}
	text, ok := unescape(p.rest[:end])
	p.failed = p.failed || !ok
	p.rest = p.rest[end:]
	return text
}

// unescape is the reverse of appendString, for a copy of s.
func unescape(s []byte) (text []byte, ok bool) {
	text = make([]byte, 0, len(s))
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] >= ' ' && s[n] != '\\' && s[n] != '"' {
			n++
		}
		text = append(text, s[:n]...)
		if s = s[n:]; len(s) == 0 {
			break
		}
		switch {
		case len(s) < 2 || s[0] != '\\':
			return nil, false
		case s[1] == 'n':
			text, s = append(text, '\n'), s[2:]
		case s[1] == '"' || s[1] == '\\':
			text, s = append(text, s[1]), s[2:]
		case len(s) >= 6 && bytes.HasPrefix(s, []byte(`\u00`)) && s[4] <= '1' && digit(s[4]) >= 0 && digit(s[5]) >= 0:
			text, s = append(text, byte(digit(s[4])<<4|digit(s[5]))), s[6:]
		default:
			return nil, false
		}
	}
	return text, true
}

// digit is the value of a hexadecimal digit as appendString writes it, or -1.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	default:
		return -1
	}
}
