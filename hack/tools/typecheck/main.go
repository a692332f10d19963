// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command typecheck reports whether the packages of a module, with their tests, compile for other systems:
//
//	typecheck -C FOLDER GOOS/GOARCH…
//
// It checks types from source and skips the bodies of what the module depends on, so it builds nothing: on a
// machine without caches that takes half a minute where go vet compiles client-go, kro and controller-runtime
// once more for each system. It exits with 1 if a package does not compile, and with 2 if it is called wrongly.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("C", ".", "folder of the module")
	flag.Parse()
	code := 0
	for _, system := range flag.Args() {
		goos, goarch, ok := strings.Cut(system, "/")
		if !ok {
			fmt.Fprintf(os.Stderr, "typecheck: %q is not GOOS/GOARCH\n", system)
			os.Exit(2)
		}
		checked, wrong, err := check(*dir, goos, goarch, "./...")
		if err != nil {
			fmt.Fprintln(os.Stderr, "typecheck:", err)
			os.Exit(1)
		}
		for _, line := range wrong {
			fmt.Fprintf(os.Stderr, "%s: %s\n", system, line)
			code = 1
		}
		fmt.Fprintf(os.Stderr, "typecheck: %d packages of %s, %d errors\n", checked, system, len(wrong))
	}
	os.Exit(code)
}

// check type-checks the packages of the module in dir that patterns match, with their tests. It returns how many
// there are and one line for each error in them; errors in what they depend on are theirs only if they show there.
func check(dir, goos, goarch string, patterns ...string) (checked int, wrong []string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return 0, nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, nil, err
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedModule,
		Dir:   dir,
		Env:   append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(set *token.FileSet, name string, content []byte) (*ast.File, error) {
			file, err := parser.ParseFile(set, name, content, parser.AllErrors|parser.SkipObjectResolution)
			if file != nil && !strings.HasPrefix(name, dir+string(filepath.Separator)) {
				dropBodies(file)
			}
			return file, err
		},
	}, patterns...)
	if err != nil {
		return 0, nil, fmt.Errorf("loading the packages: %w", err)
	}
	if len(loaded) == 0 {
		return 0, nil, errors.New("there are no packages")
	}
	seen := map[string]bool{} // a package and its test variant have the same errors
	for _, p := range loaded {
		if strings.HasSuffix(p.ID, ".test") { // the main package of a test's program, which go test writes
			continue
		}
		checked++
		for _, e := range p.Errors {
			if !seen[e.Error()] {
				seen[e.Error()] = true
				wrong = append(wrong, e.Error())
			}
		}
	}
	return checked, wrong, nil
}

// dropBodies takes the bodies of a file's functions away: importers see only what they declare. A body that is
// missing is that of a function in assembly.
func dropBodies(file *ast.File) {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name != "_" {
			f.Body = nil
		}
	}
}
