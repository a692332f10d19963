// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/sandbar-dev/sandbar/client"
)

// explain is what a person reads of an error: what went wrong and, where it is known, what to do.
func explain(err error) string {
	var untrusted *client.UntrustedError
	text := printable(err.Error())
	if errors.As(err, &untrusted) {
		return fmt.Sprintf("%s. If it is your provider's, run: sandbar trust %s", text, untrusted.Origin)
	}
	return text
}

// printable takes the control characters out of text that may come from inside a sandbox: they
// would act on the terminal (Mutagen, CVE-2023-30844). Line breaks and tabs stay.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
