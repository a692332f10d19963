// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// longVariable asks for the long tests, and for none but them.
const longVariable = "SANDBAR_LONG"

// calm says that a test leaves the shared parts as they are, and that others may run beside it.
func calm(t *testing.T) {
	t.Parallel()
	begin(t)
}

// changes says that a test changes Templates or settings, each of which changes the one export that
// all workspaces have bound.
func changes(t *testing.T) {
	t.Parallel()
	begin(t)
}

// breaks says that a test kills, drains or pauses what all tests share, writes the provider's limits,
// or counts what the whole provider does. It runs alone.
func breaks(t *testing.T) { begin(t) }

// mostFailures is how many tests may fail before the others are skipped: something that all share is broken.
const mostFailures = 5

var failures atomic.Int32

func begin(t *testing.T) {
	t.Helper()
	if failures.Load() >= mostFailures {
		t.Skipf("since %d tests have failed", mostFailures)
	}
	t.Cleanup(func() {
		if t.Failed() {
			failures.Add(1)
		}
	})
}

// long says that a test is one of make test-all, and why it is none of make test.
func long(t *testing.T, why string) {
	t.Helper()
	if os.Getenv(longVariable) == "" {
		t.Skipf("in make test-all, since %s", why)
	}
}

// side is what a test says of itself in its first statements.
type side struct {
	name     string
	parallel int // how many of its tests run at the same time
}

// sides are in the order in which they run: a test that breaks something costs those before it nothing.
// Sandboxes take about a second each on two cores, and a test waits for most of its time.
var sides = []side{{"calm", 5}, {"changes", 3}, {"breaks", 1}}

// runSides runs the tests that the flags ask for, one side after the other.
func runSides(m *testing.M) int {
	flag.Parse() // m.Run would, which is too late for what is read here
	tests, err := testsBySide(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 2
	}
	pattern := flag.Lookup("test.run").Value.String()
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run()
	}
	code, ran := 0, false
	for _, side := range sides {
		chosen, err := choose(pattern, tests[side.name])
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 2
		}
		if chosen == "" {
			continue
		}
		ran = true
		fmt.Fprintf(os.Stderr, "e2e: tests of the side %q, %d at a time\n", side.name, side.parallel)
		_, _ = flag.Set("test.run", chosen), flag.Set("test.parallel", strconv.Itoa(side.parallel)) // both are flags of every test program
		code = max(code, m.Run())
	}
	if !ran {
		fmt.Fprintf(os.Stderr, "e2e: no test matches %q; long ones need %s=1, and with it only they run\n", pattern, longVariable)
		return 2
	}
	return code
}

// choose returns the pattern that matches what pattern matches among some tests; empty if that is nothing.
func choose(pattern string, tests []string) (string, error) {
	var chosen []string
	for _, alternative := range alternatives(pattern) {
		test, subtests, _ := strings.Cut(alternative, "/")
		matches, err := regexp.Compile(test)
		if err != nil {
			return "", fmt.Errorf("-run: %w", err)
		}
		found := slices.DeleteFunc(slices.Clone(tests), func(name string) bool { return !matches.MatchString(name) })
		if len(found) == 0 {
			continue
		}
		whole := "^(" + strings.Join(found, "|") + ")$"
		if subtests != "" {
			whole += "/" + subtests
		}
		chosen = append(chosen, whole)
	}
	return strings.Join(chosen, "|"), nil
}

// alternatives splits a pattern at the "|" between what begins with names of tests, as package testing does.
func alternatives(pattern string) []string {
	depth, from := 0, 0
	var found []string
	for i, c := range pattern {
		switch c {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '|':
			if depth == 0 {
				found, from = append(found, pattern[from:i]), i+1
			}
		}
	}
	return append(found, pattern[from:])
}

// testsBySide reads from the sources in a folder which side each test is on. Long ones are only among
// them if they are asked for, else they are there to say why they are skipped.
func testsBySide(dir string) (map[string][]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	found := map[string][]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			said := firstCalls(f)
			isLong := len(said) > 0 && said[0] == "long"
			if isLong {
				said = said[1:]
			}
			if len(said) == 0 || !slices.ContainsFunc(sides, func(s side) bool { return s.name == said[0] }) {
				return nil, fmt.Errorf("%s: %s does not begin with its side: calm(t), changes(t) or breaks(t), after long(t, why) if it is long", file, f.Name.Name)
			}
			if isLong || os.Getenv(longVariable) == "" {
				found[said[0]] = append(found[said[0]], f.Name.Name)
			}
		}
	}
	return found, nil
}

// firstCalls are the names of the functions that the first two statements call.
func firstCalls(f *ast.FuncDecl) []string {
	var names []string
	for _, statement := range f.Body.List[:min(2, len(f.Body.List))] {
		expression, ok := statement.(*ast.ExprStmt)
		if !ok {
			break
		}
		call, ok := expression.X.(*ast.CallExpr)
		if !ok {
			break
		}
		name, ok := call.Fun.(*ast.Ident)
		if !ok {
			break
		}
		names = append(names, name.Name)
	}
	return names
}
