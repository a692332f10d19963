// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// explain is what a person reads of an error: what went wrong and, where it is known, what to do.
func explain(err error) string {
	var untrusted *client.UntrustedError
	text := termsafe.String(err.Error())
	if errors.As(err, &untrusted) {
		return fmt.Sprintf("%s. If it is your provider's, run: sandbar trust %s", text, untrusted.Origin)
	}
	return text
}
