// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"unicode/utf8"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// restartMode is what a sync asks for after it was applied.
type restartMode string

const (
	restartNever  restartMode = syncwire.RestartNever
	restartLater  restartMode = syncwire.RestartLater
	restartStart  restartMode = syncwire.RestartStart
	restartAuto   restartMode = syncwire.RestartAuto
	restartAlways restartMode = syncwire.RestartAlways
)

// changes takes the entries of a sync one by one. [workspace.Batch] is one.
type changes interface {
	Write(path string, content []byte, executable *bool) error
	Delete(path string, expect *syncwire.Entry) error
}

// syncFile is one element of files.
type syncFile struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	Encoding   string `json:"encoding"`
	Executable *bool  `json:"executable"`
}

// decodeSync is decodeJSON for a batch.
func decodeSync(body io.Reader, to *workspace.Batch) (restartMode, *syncwire.Staged, error) {
	mode, err := decodeJSON(body, to)
	return mode, nil, err
}

// decodeJSON reads the body of POST /sync and hands its entries to to as they come,
// so that one file is in memory at a time, and not the batch. The caller must not
// apply anything before decodeJSON has returned without an error: what is wrong
// may be the last byte.
func decodeJSON(body io.Reader, to changes) (restartMode, error) {
	checked := &utf8Reader{from: body}
	d := syncDecoder{json: json.NewDecoder(checked), body: checked, to: to}
	d.json.DisallowUnknownFields()
	mode, err := d.object()
	if err != nil {
		return "", d.refuse(err)
	}
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		return "", d.refuse(cmp.Or[error](err, malformed("there is more after the JSON object")))
	}
	return mode, nil
}

type syncDecoder struct {
	json *json.Decoder
	body *utf8Reader // what json reads
	to   changes
}

// object reads the one object that the body is.
func (d *syncDecoder) object() (restartMode, error) {
	if err := d.expect('{', "the body must be a JSON object"); err != nil {
		return "", err
	}
	mode := restartNever
	seen := map[string]bool{}
	for d.json.More() {
		token, err := d.json.Token()
		if err != nil {
			return "", err
		}
		key, _ := token.(string) // within an object it is one
		if seen[key] {
			return "", malformed("the field %q is there twice", syncwire.Shorten(key))
		}
		seen[key] = true
		switch key {
		case "files":
			err = d.each("files", d.file)
		case "deletePaths":
			err = d.each("deletePaths", d.deletePath)
		case "restart":
			mode, err = d.restart()
		default:
			err = malformed("the field %q is unknown", syncwire.Shorten(key))
		}
		if err != nil {
			return "", err
		}
	}
	_, err := d.json.Token() // the closing brace
	return mode, err
}

// each reads an array; null is an empty one, which is what some clients send.
func (d *syncDecoder) each(field string, element func() error) error {
	token, err := d.json.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return malformed("%s must be an array", field)
	}
	for d.json.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = d.json.Token() // the closing bracket
	return err
}

func (d *syncDecoder) file() error {
	var f *syncFile
	if err := d.json.Decode(&f); err != nil {
		return err
	}
	if f == nil {
		return malformed("an element of files is null")
	}
	content := []byte(f.Content)
	switch f.Encoding {
	case "", "utf-8":
	case "base64":
		var err error
		if content, err = base64.StdEncoding.Strict().DecodeString(f.Content); err != nil {
			return malformed("the content of %q is not valid base64", syncwire.Shorten(f.Path))
		}
	default:
		return malformed("the encoding of %q must be utf-8 or base64", syncwire.Shorten(f.Path))
	}
	return d.to.Write(f.Path, content, f.Executable)
}

func (d *syncDecoder) deletePath() error {
	var path *string
	if err := d.json.Decode(&path); err != nil {
		return err
	}
	if path == nil {
		return malformed("an element of deletePaths is null")
	}
	return d.to.Delete(*path, nil)
}

func (d *syncDecoder) restart() (restartMode, error) {
	var mode string
	if err := d.json.Decode(&mode); err != nil {
		return "", err
	}
	return parseRestart(mode)
}

// parseRestart takes nothing for never.
func parseRestart(value string) (restartMode, error) {
	switch mode := restartMode(value); mode {
	case "":
		return restartNever, nil
	case restartNever, restartLater, restartStart, restartAuto, restartAlways:
		return mode, nil
	default:
		return "", malformed("restart must be later, never, start, auto or always")
	}
}

func (d *syncDecoder) expect(delim json.Delim, otherwise string) error {
	token, err := d.json.Token()
	if err == nil && token != delim {
		err = malformed("%s", otherwise)
	}
	return err
}

// refuse turns an error of reading, decoding or handing on into one for the caller.
func (d *syncDecoder) refuse(err error) error {
	var (
		known     *apiError
		change    *workspace.Error
		size      *http.MaxBytesError
		syntax    *json.SyntaxError
		wrongType *json.UnmarshalTypeError
	)
	switch reading := d.body.failure; {
	case errors.As(err, &known), errors.As(err, &change):
		return err
	case errors.As(reading, &size):
		return tooLarge(size.Limit)
	case errors.Is(reading, os.ErrDeadlineExceeded):
		return reading
	case errors.Is(reading, errNotUTF8):
		return malformed("the body is not valid UTF-8; send binary content with the encoding base64")
	case reading != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the body ends in the middle of the JSON object")
	case errors.As(err, &syntax):
		return malformed("the body is not valid JSON at byte %d: %v", syntax.Offset, syntax)
	case errors.As(err, &wrongType):
		return malformed("the field %q must not be a JSON %s", syncwire.Shorten(wrongType.Field), wrongType.Value)
	default:
		// A field that is not known has no type of its own.
		return malformed("the body does not have the right form: %s", syncwire.Shorten(err.Error()))
	}
}

var errNotUTF8 = errors.New("not valid UTF-8")

// utf8Reader fails on bytes that are not UTF-8. Package json would replace them
// silently, and a binary file would arrive damaged.
type utf8Reader struct {
	from io.Reader
	// tail has the beginning of a character that the last read cut.
	tail []byte
	// failure is why reading ended, unless it was the end of the body.
	failure error
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.check(p)
	if err != nil && !errors.Is(err, io.EOF) {
		u.failure = err
	}
	return n, err
}

func (u *utf8Reader) check(p []byte) (int, error) {
	n, err := u.from.Read(p)
	read := append(u.tail, p[:n]...)
	for len(read) > 0 {
		if read[0] < utf8.RuneSelf {
			read = read[1:]
			continue
		}
		if !utf8.FullRune(read) && !errors.Is(err, io.EOF) {
			break // the next read has the rest, or there is a better reason to fail
		}
		r, size := utf8.DecodeRune(read)
		if r == utf8.RuneError && size == 1 {
			return 0, errNotUTF8
		}
		read = read[size:]
	}
	u.tail = append([]byte(nil), read...)
	return n, err
}
