// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command loc prints how many lines of Go each top-level folder has, by what they are for: product,
// tests, benchmarks, and the stack and tools of developers. Generated files do not count.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
)

// purposes are the columns, in their order.
var purposes = []string{"product", "test", "bench", "stack"}

// lines are those of a file or of several.
type lines struct{ code, comment, blank int }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "loc:", err)
		os.Exit(1)
	}
}

func run() error {
	out, err := exec.Command("git", "ls-files", "-z", "--", "*.go").Output() //nolint:noctx // ends with this program
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	folders := map[string]map[string]lines{}
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		source, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // removed and not committed yet
		} else if err != nil {
			return err
		}
		counted, ok := count(source)
		if !ok {
			continue
		}
		folder, _, _ := strings.Cut(path, "/")
		for _, folder := range []string{folder, "total"} {
			if folders[folder] == nil {
				folders[folder] = map[string]lines{}
			}
			folders[folder][purpose(path)] = folders[folder][purpose(path)].plus(counted)
		}
	}
	return report(folders)
}

// purpose returns what a file is for.
func purpose(path string) string {
	switch {
	case strings.HasSuffix(path, "_test.go"), strings.HasPrefix(path, "e2e/"), strings.Contains(path, "/testdata/"):
		return "test"
	case strings.HasPrefix(path, "bench/"):
		return "bench"
	case strings.HasPrefix(path, "hack/"):
		return "stack"
	default:
		return "product"
	}
}

// count returns a file's lines, and false when it is generated. A line with code and a comment is code.
func count(source []byte) (lines, bool) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "", source, parser.ParseComments|parser.PackageClauseOnly)
	if err == nil && ast.IsGenerated(parsed) {
		return lines{}, false
	}
	file := fset.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	code, comment := map[int]bool{}, map[int]bool{}
	for {
		at, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // at a line's end, not written
		}
		kind, first := code, file.Line(at)
		if tok == token.COMMENT {
			kind = comment
		}
		for line := range strings.Count(text, "\n") + 1 {
			kind[first+line] = true
		}
	}
	maps.DeleteFunc(comment, func(line int, _ bool) bool { return code[line] })
	all := strings.Count(string(source), "\n")
	return lines{code: len(code), comment: len(comment), blank: all - len(code) - len(comment)}, true
}

func (l lines) plus(other lines) lines {
	return lines{l.code + other.code, l.comment + other.comment, l.blank + other.blank}
}

func report(folders map[string]map[string]lines) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "lines of code\t%s\tcomment\tblank\t\n", strings.Join(purposes, "\t"))
	names := slices.Sorted(maps.Keys(folders))
	names = append(slices.DeleteFunc(names, func(name string) bool { return name == "total" }), "total")
	for _, name := range names {
		fmt.Fprint(table, name)
		var sum lines
		for _, purpose := range purposes {
			fmt.Fprintf(table, "\t%d", folders[name][purpose].code)
			sum = sum.plus(folders[name][purpose])
		}
		fmt.Fprintf(table, "\t%d\t%d\t\n", sum.comment, sum.blank)
	}
	return table.Flush()
}
