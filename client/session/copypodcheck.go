// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client/devsync"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// inTheWay reads lines "d PATH" for directories and "f PATH" for all else that is to be written, and "p PATH" for the
// directories that these lie in, and prints those in whose place something else is: symlinks to directories are followed
// on the way to what is written, as a person who names them means, and never replaced. Programs of images replace that
// without a word: GNU tar a symlink by a directory, so that what it led to is not changed, and an empty directory by a
// file.
const inTheWay = `while IFS= read -r line; do
p=${line#??}
case $line in
p*) if [ ! -d "$p" ] && { [ -e "$p" ] || [ -L "$p" ]; }; then printf '%s\n' "$line"; fi ;;
d*) if [ -L "$p" ] || { [ -e "$p" ] && [ ! -d "$p" ]; }; then printf '%s\n' "$line"; fi ;;
*) if [ -d "$p" ] && [ ! -L "$p" ]; then printf '%s\n' "$line"; fi ;;
esac
done`

// maxInTheWay bounds what is kept of the answer.
const maxInTheWay = 64 << 10

// InTheWayError ends a copy before it has begun: where a file or a directory was to be written, the sandbox has
// something that it would replace.
type InTheWayError struct {
	// Path is one of the places, as in the sandbox.
	Path string
	// Reason is the reason of a runner's conflict.
	Reason string
	// More is the number of further places.
	More int
}

// Error implements error.
func (e *InTheWayError) Error() string {
	text := fmt.Sprintf("%s: %s", termsafe.Line(e.Path), e.Reason)
	if e.More > 0 {
		text += fmt.Sprintf("; %d more paths conflict", e.More)
	}
	return text
}

// check refuses what a runner would refuse. In an image without a shell nothing can be asked, and nothing is refused.
func (u *podUp) check(ctx context.Context) error {
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := u.places(writer)
		_ = writer.CloseWithError(err)
		written <- err
	}()
	found := &firstBytes{left: maxInTheWay}
	err := u.run(ctx, []string{"sh", "-c", inTheWay}, reader, found)
	_ = reader.CloseWithError(errTaken)
	if failed := <-written; failed != nil && !errors.Is(failed, errTaken) {
		return failed
	}
	if errors.Is(err, errNoProgram) {
		return nil
	}
	if err != nil {
		return err
	}
	return conflictOf(found.Bytes())
}

// places writes a line for each place that the copy will write to.
func (u *podUp) places(to io.Writer) error {
	out := bufio.NewWriter(to)
	for dir := path.Dir(u.to); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if _, err := fmt.Fprintf(out, "p %s\n", podPath(dir)); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(u.source, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			if full == u.source {
				return err
			}
			return nil // the copy itself says that it is left out
		}
		name, err := filepath.Rel(u.source, full)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if devsync.CheckForm(name) != "" && name != "." {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		place := path.Join(u.to, name)
		if !path.IsAbs(place) {
			place = "./" + place
		}
		kind := 'f'
		if d.IsDir() {
			kind = 'd'
		}
		if place == "./." {
			return nil // the working directory is there
		}
		_, err = fmt.Fprintf(out, "%c %s\n", kind, place)
		return err
	})
	return errors.Join(err, out.Flush())
}

// conflictOf makes an error of lines that say what is in the way; nil if there is none.
func conflictOf(lines []byte) error {
	var first *InTheWayError
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if len(line) < 3 {
			continue
		}
		if first != nil {
			first.More++
			continue
		}
		first = &InTheWayError{Path: path.Clean(string(line[2:])), Reason: syncwire.ReasonDirectoryThere}
		switch line[0] {
		case 'd':
			first.Reason = syncwire.ReasonFileThere
		case 'p':
			first.Reason = syncwire.ReasonOnTheWay
		}
	}
	if first == nil {
		return nil
	}
	return first
}
