// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// addOutputFlag adds -o, which is text or json.
func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text, or json for one JSON object a line")
}

func jsonOutput(output string) (bool, error) {
	switch output {
	case "json":
		return true, nil
	case "text":
		return false, nil
	default:
		return false, &usageError{fmt.Errorf("-o %q is neither text nor json", output)}
	}
}

// terminal tells whether a writer is one; what is written there is escaped.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isTerminal(f)
}

// say tells a person what happens, on a line of its own.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "[%s] %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// browse starts the person's browser; the URL has been printed in case there is none. The address may come from a server, and
// the program that gets it starts others for other schemes, with files and arguments of the address.
func browse(ctx context.Context, address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("%q is not the address of a page, and no browser is started", address)
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil //nolint:nilerr // no browser is no failure: the URL is on stdout
	}
	if err := exec.CommandContext(ctx, path, address).Run(); err != nil {
		return fmt.Errorf("starting a browser: %w", err)
	}
	return nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// quoted is a file's name for a shell.
func quoted(file string) string {
	if strings.ContainsAny(file, " '\"$`\\&;()<>|*?[]#~!") {
		return "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return file
}

// none stands for a value that is not there.
const none = "<none>"

// writeDocument writes a text with values of objects as it is, but to a terminal without what that would obey:
// a message of a condition can quote what a sandbox printed.
func writeDocument(out io.Writer, text []byte) error {
	if terminal(out) {
		text = []byte(termsafe.String(string(text)))
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// counted is a number of things.
func counted[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// bytesOf writes a number of bytes as people read it.
func bytesOf(n int64) string {
	const step = 1024
	if n < step {
		return counted(n, "byte")
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= step; value < step {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
