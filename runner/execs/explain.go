// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package execs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxInterpreterLine is how much of a script's first line the kernel reads (BINPRM_BUF_SIZE).
const maxInterpreterLine = 256

// InterpreterError says that a script is there, and the program that its first line names is not. The kernel
// has one error for both.
type InterpreterError struct {
	Path, Interpreter string
	// CRLF is set if the line ends with a carriage return, which the kernel takes for a part of the name.
	CRLF bool
}

func (e *InterpreterError) Error() string {
	if e.CRLF {
		return fmt.Sprintf("%q begins with #! and ends its first line with a carriage return (CRLF): save it with LF line ends", e.Path)
	}
	return fmt.Sprintf("%q begins with #! and names the interpreter %q, which is not there", e.Path, e.Interpreter)
}

// Unwrap returns the kernel's error, by which a shell finds its exit code.
func (e *InterpreterError) Unwrap() error { return fs.ErrNotExist }

// errTooLong is the kernel's error with its numbers (execve(2)), and a way out.
var errTooLong = fmt.Errorf("%w: Linux takes 128 KiB in one argument, and about 2 MiB in all with the environment; put what is longer into a file or the command's input", unix.E2BIG)

// explain returns what the kernel meant by an error of starting the program at path.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return errTooLong
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if script := CheckScript(path); script != nil {
		return script
	}
	return err
}

// CheckScript returns an *InterpreterError if a script is at path whose interpreter is not there, and nil otherwise.
func CheckScript(path string) error {
	file, failed := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would wait for a writer
	if failed != nil {
		return nil
	}
	defer file.Close()
	if info, failed := file.Stat(); failed != nil || !info.Mode().IsRegular() {
		return nil
	}
	head, failed := io.ReadAll(io.LimitReader(file, maxInterpreterLine)) //nolint:forbidigo // maxInterpreterLine
	line, _, _ := bytes.Cut(head, []byte("\n"))
	named, isScript := bytes.CutPrefix(line, []byte("#!"))
	if failed != nil || !isScript {
		return nil
	}
	name, crlf := strings.CutSuffix(string(named), "\r")
	interpreter, _, _ := strings.Cut(strings.TrimLeft(name, " \t"), " ")
	if _, failed := os.Stat(interpreter); failed == nil && !crlf {
		return nil
	}
	return &InterpreterError{Path: path, Interpreter: interpreter, CRLF: crlf}
}
