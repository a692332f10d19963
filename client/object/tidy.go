// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"strings"
)

// tidyError is an error of the server in fewer words.
type tidyError struct {
	text string
	err  error
}

func (e *tidyError) Error() string { return e.text }
func (e *tidyError) Unwrap() error { return e.err }

// A server that refuses a field repeats the whole object before it says which field that is.
var tidied = []string{"strict decoding error: ", "failed to create typed patch object "}

// tidy leaves out what a server repeats of the object.
func tidy(err error) error {
	for _, mark := range tidied {
		text := err.Error()
		at := strings.LastIndex(text, mark)
		if at < 0 {
			continue
		}
		text = text[at+len(mark):]
		if _, after, ok := strings.Cut(text, "): "); ok && strings.HasPrefix(text, "(") {
			text = strings.TrimPrefix(after, ".")
		}
		return &tidyError{text, err}
	}
	return err
}
