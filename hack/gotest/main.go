// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command gotest runs go test and says what a person who looks at a terminal, or at the end of a long log,
// wants to know: what has passed, what runs when nothing was printed for a while, and why something failed.
//
//	gotest [flags] -- GO TEST'S FLAGS -- PACKAGES
//	gotest summary REPORT
//
// A top-level test that failed is run once more, alone. If it passes then, it is flaky: that is printed and
// reported, and the run is green if there are at most two of them. What the second run cannot disprove is
// never run again: a data race, a panic, and what the tests' own programs call impossible or left running.
// A package that fails outside of its tests is not either. A test that is in the quarantine fails without
// making the run red, unless with one of these.
//
// A summary says how long each stage of a report took, and which tests were the slowest, flaky or skipped.
//
// It exits with 0 if the run is green, with 1 if it is red, and with 2 if it is called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// mostFlaky is how many tests of a run, that is of a report, may be flaky.
const mostFlaky = 2

// settings are the flags of this command.
type settings struct {
	stage  string
	each   bool
	report string
	events string
	before string
	// quarantine is a file of tests that do not decide.
	quarantine string
	// flags are go test's own, without -run, and packages is what it tests.
	flags, packages []string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "summary" {
		if err := summarize(os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "gotest:", err)
			os.Exit(1)
		}
		return
	}
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	green, err := run(ctx, s, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
	}
	if err != nil || !green {
		os.Exit(1)
	}
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("gotest", flag.ContinueOnError)
	flags.StringVar(&s.stage, "stage", "tests", "name of what is run, for the report")
	flags.BoolVar(&s.each, "each", false, "print a line for each test that has ended, not for each package")
	flags.StringVar(&s.report, "report", "", "file that one line of JSON for each test is appended to; flaky tests in it count towards the two")
	flags.StringVar(&s.events, "events", "", "file that all that go test -json prints is written to")
	flags.StringVar(&s.before, "before", "", "shell command that is run before a failed test is run once more; if it fails, so does the run")
	flags.StringVar(&s.quarantine, "quarantine", "", "file of tests whose failure is reported and does not make the run red: a name, a day and a reason a line")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	rest := flags.Args()
	at := slices.Index(rest, "--")
	if at < 0 || at == len(rest)-1 {
		return s, errors.New("usage: gotest [flags] -- GO TEST'S FLAGS -- PACKAGES, or gotest summary REPORT")
	}
	s.flags, s.packages = rest[:at], rest[at+1:]
	return s, nil
}
