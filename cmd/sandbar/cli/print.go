// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package cli

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

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// AddOutputFlag adds -o, which is text or json.
func AddOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "text", "text, or json for one JSON object a line")
}

// JSONOutput reads the value of the flag of AddOutputFlag, and reports whether it is json.
func JSONOutput(output string) (bool, error) {
	switch output {
	case "json":
		return true, nil
	case "text":
		return false, nil
	default:
		return false, &UsageError{fmt.Errorf("-o %q is neither text nor json", output)}
	}
}

// Terminal reports whether w is a terminal. What a sandbox says is escaped there.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && IsTerminal(f)
}

// Say prints a line about what happens, with the time of day.
func Say(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "[%s] %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Browse starts the person's browser; the URL has been printed in case there is none. The address may come from a server, and
// the program that gets it starts others for other schemes, with files and arguments of the address.
func Browse(ctx context.Context, address string) error {
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

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Quoted is a file's name for a shell.
func Quoted(file string) string {
	if strings.ContainsAny(file, " '\"$`\\&;()<>|*?[]#~!") {
		return "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return file
}

// None stands for a value that is not there.
const None = "<none>"

// WriteDocument writes a text with values of objects as it is, but to a terminal without what that would obey:
// a message of a condition can quote what a sandbox printed.
func WriteDocument(out io.Writer, text []byte) error {
	if Terminal(out) {
		text = []byte(termsafe.String(string(text)))
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// Counted is a number of things.
func Counted[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// BytesOf writes a number of bytes as people read it.
func BytesOf(n int64) string {
	const step = 1024
	if n < step {
		return Counted(n, "byte")
	}
	value, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= step; value < step {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
