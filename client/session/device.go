// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// isDevice reports whether a copy is written into what is at a path, and not renamed over it: a device, a FIFO or a
// socket, also behind a symlink, and an open file, as /dev/fd/3 is one. To rename a file over
// /dev/null, which root may do, would take the device away from the whole machine.
func isDevice(destination string) bool {
	info, err := os.Stat(destination)
	if err != nil || info.IsDir() {
		return false
	}
	if !info.Mode().IsRegular() {
		return true
	}
	full, err := filepath.Abs(destination)
	return err == nil && (strings.HasPrefix(full, "/dev/") || strings.HasPrefix(full, "/proc/"))
}

// writeThrough has content write to what is at a path. It makes no file.
func writeThrough(destination string, content func(io.Writer) error) error {
	f, err := os.OpenFile(destination, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("writing the copy: %w", err)
	}
	return errors.Join(content(f), f.Close())
}
