// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// answer writes the answer to a plain request: it is an http.ResponseWriter for one request of HTTP/1.1 whose handler sets
// Content-Length right or not at all, as the proxy's does.
type answer struct {
	conn   net.Conn
	header http.Header
	isHead bool

	// status is 0 until the header is decided.
	status int
	// wrote is set once the header has been written to out.
	wrote bool
	// left is how much of a body of a stated length is to come; -1 if the length is not stated.
	left    int64
	chunked bool
	// closes is set if the connection ends with the answer.
	closes bool
	// held is what a body of no stated length begins with, until it is longer or flushed.
	held []byte
	out  *[]byte
	err  error
}

const (
	// answerBuffer is how much of an answer is written at once.
	answerBuffer = 16 << 10
	// holdBody is how long a body of no stated length may be to get one.
	holdBody = 2 << 10
)

var outBuffers = sync.Pool{New: func() any { b := make([]byte, 0, answerBuffer); return &b }}

var (
	errTooMuchBody   = errors.New("the body is longer than its Content-Length")
	errTooLittleBody = errors.New("the body is shorter than its Content-Length")
)

func newAnswer(conn net.Conn, isHead bool) *answer {
	out, _ := outBuffers.Get().(*[]byte)
	*out = (*out)[:0]
	return &answer{conn: conn, header: make(http.Header, 8), isHead: isHead, out: out}
}

func (w *answer) release() {
	if cap(*w.out) <= 2*answerBuffer {
		outBuffers.Put(w.out)
	}
	w.out = nil
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational answers are sent at once.
func (w *answer) WriteHeader(status int) {
	switch {
	case w.status != 0:
	case status < http.StatusOK:
		w.append(status)
		w.flushOut()
	default:
		w.status = status
	}
}

// hasBody reports whether the answer may have a body.
func (w *answer) hasBody() bool {
	return !w.isHead && w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// Write implements http.ResponseWriter.
func (w *answer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.hasBody() {
		return len(p), w.err
	}
	if !w.wrote && w.header["Content-Length"] == nil {
		if len(w.held)+len(p) <= holdBody {
			w.held = append(w.held, p...)
			return len(p), w.err
		}
	}
	w.begin()
	return len(p), w.body(p)
}

// begin writes the header, and what was held.
func (w *answer) begin() {
	if w.wrote {
		return
	}
	w.wrote = true
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.left = -1
	if stated := w.header["Content-Length"]; len(stated) > 0 {
		if n, err := strconv.ParseInt(stated[0], 10, 64); err == nil {
			w.left = n
		}
	} else if w.hasBody() {
		w.chunked = true
		w.header["Transfer-Encoding"] = []string{"chunked"}
	}
	if _, ok := w.header["Date"]; !ok {
		w.header["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	}
	w.closes = hasToken(w.header["Connection"], "close")
	w.append(w.status)
	if held := w.held; len(held) > 0 {
		w.held = nil
		_ = w.body(held)
	}
}

// append appends a status line and the header.
func (w *answer) append(status int) {
	out := append(*w.out, "HTTP/1.1 "...)
	out = append(strconv.AppendInt(out, int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		out = append(out, text...)
	} else {
		out = strconv.AppendInt(append(out, "status code "...), int64(status), 10)
	}
	out = append(out, "\r\n"...)
	announced := w.announced()
	for name, values := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(announced, name) {
			continue
		}
		out = appendField(out, name, values)
	}
	*w.out = append(out, "\r\n"...)
}

// appendField appends the lines of a field. What could end a line becomes a space, as net/http has it.
func appendField(out []byte, name string, values []string) []byte {
	if !httpguts.ValidHeaderFieldName(name) {
		return out
	}
	for _, value := range values {
		if strings.ContainsAny(value, "\r\n") {
			value = lineEnds.Replace(value)
		}
		out = append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
	}
	return out
}

var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

// body writes a part of the body behind the header.
func (w *answer) body(p []byte) error {
	if w.err != nil || len(p) == 0 {
		return w.err
	}
	if w.left >= 0 {
		if w.left -= int64(len(p)); w.left < 0 {
			w.err = errTooMuchBody
			return w.err
		}
	}
	if w.chunked {
		*w.out = append(strconv.AppendInt(*w.out, int64(len(p)), 16), "\r\n"...)
	}
	if len(*w.out)+len(p) <= answerBuffer {
		*w.out = append(*w.out, p...)
	} else {
		w.flushOut()
		w.write(p)
	}
	if w.chunked {
		*w.out = append(*w.out, "\r\n"...)
	}
	return w.err
}

func (w *answer) write(p []byte) {
	if w.err == nil && len(p) > 0 {
		_, w.err = w.conn.Write(p)
	}
}

func (w *answer) flushOut() {
	w.write(*w.out)
	*w.out = (*w.out)[:0]
}

// FlushError implements what http.ResponseController flushes with.
func (w *answer) FlushError() error {
	w.begin()
	w.flushOut()
	return w.err
}

// finish ends the answer.
func (w *answer) finish() error {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	announced := w.announced()
	if !w.wrote && w.hasBody() && w.header["Content-Length"] == nil && len(announced) == 0 && !w.hasTrailer() {
		w.header["Content-Length"] = []string{strconv.Itoa(len(w.held))}
	}
	w.begin()
	switch {
	case w.chunked:
		*w.out = append(*w.out, "0\r\n"...)
		w.trailer(announced)
		*w.out = append(*w.out, "\r\n"...)
	case w.hasBody() && w.left > 0 && w.err == nil:
		w.err = errTooLittleBody
	}
	w.flushOut()
	return w.err
}

// announced are the names of the fields that the header says will follow the body.
func (w *answer) announced() (names []string) {
	for _, list := range w.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); httpguts.ValidTrailerHeader(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// hasTrailer reports whether fields follow that were not announced.
func (w *answer) hasTrailer() bool {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// trailer appends the fields that follow a body of chunks: those that were announced, and those with net/http's prefix.
func (w *answer) trailer(announced []string) {
	for _, name := range announced {
		*w.out = appendField(*w.out, name, w.header[name])
	}
	for name, values := range w.header {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			*w.out = appendField(*w.out, bare, values)
		}
	}
}
