// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"io"

	"github.com/sandbar-dev/sandbar/client/object"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
)

// diffFormat is the format of -o that prints the three-way difference of an object whose version is stale.
const diffFormat = "diff"

const diffUsage = "diff prints, of an object that has changed meanwhile, what has changed, by which program and when, and your own change"

// showDiff prints the three-way difference if -o asks for it and an object was refused because it has changed, and
// returns the error.
func showDiff(out io.Writer, format string, err error) error {
	var stale *object.ConflictError
	if format != diffFormat || !errors.As(err, &stale) {
		return err
	}
	text, failed := stale.Diff()
	if failed != nil {
		return errors.Join(err, failed)
	}
	if failed := cli.WriteDocument(out, []byte(text)); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}
