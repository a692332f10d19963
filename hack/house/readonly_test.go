// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// readOnly are types whose fields nothing assigns once a value is made. A function that keeps what it
// found out in such a value speaks to the next one behind its caller's back; it returns it instead (ADR 32).
var readOnly = []struct {
	// dir is the folder whose files are looked at, with those below it.
	dir, name string
	// makers are the functions that return such a value.
	makers []string
}{
	{"providers/infrastructure/instance", "Scope", []string{"scopeOf", "protect", "Protected", "sample", "New", "In", "Of", "Saying"}},
}

func TestReadOnlyTypesAreNotAssignedTo(t *testing.T) {
	for _, typ := range readOnly {
		files := 0
		for _, file := range texts(t) {
			if !strings.HasPrefix(file, typ.dir+"/") || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				continue
			}
			files++
			for _, problem := range assignments(t, file, read(t, file), typ.name, typ.makers) {
				t.Errorf("%s: a field of %s is changed after it was made; return the value to the caller", problem, typ.name)
			}
		}
		if files == 0 {
			t.Errorf("%s has no files", typ.dir)
		}
	}
}

func TestAssignmentsAreFound(t *testing.T) {
	for body, found := range map[string]bool{
		"func f(s *scope) { s.a = 1 }":                                      true,
		"func f(x *r.scope) { x.a = 1 }":                                    true,
		"func (s *scope) f() { s.a, b = 1, 2 }":                             true,
		"func f(s *scope) { s.a.b = 1 }":                                    true,
		"func f(s *scope) { s.a++ }":                                        true,
		"func f(s *scope) { s.a[0] = 1 }":                                   true,
		"func f(s *scope) { s.a += 1 }":                                     true,
		"func f(s *scope) { *s = scope{} }":                                 true,
		"func f(s *scope) { go func() { s.a = 1 }() }":                      true,
		"func f() { s := r.scopeOf(x); s.a = 1 }":                           true,
		"func f() { s, err := scopeOf(x); s.a = 1 }":                        true,
		"func f() { s := &scope{}; s.a = 1 }":                               true,
		"func f() { var s scope; s.a = 1 }":                                 true,
		"func f(s *scope) { x := s; x.a = 1 }":                              true,
		"func f(s *scope) { for s.a = range list { } }":                     true,
		"func f(s *scope) int { x := s.a; x = 2; return s.b(x) }":           false,
		"func f(s *other) { s.a = 1 }":                                      false,
		"func f() { s := scopeOf(x); s = scopeOf(y); g(s) }":                false,
		"func f(s *scope) (o outcome) { o.a = s.a; return }":                false,
		"func f(s *scope) { g(s) }; func g(s *other) { s.a = 1 }":           false,
		"func f() *scope { return &scope{a: 1} }; func g() { o.a = f().a }": false,
	} {
		if got := assignments(t, "x.go", "package x\n"+body, "scope", []string{"scopeOf"}); (len(got) > 0) != found {
			t.Errorf("%s: found %v", body, got)
		}
	}
}

// assignments returns the places in a file that change a field of a value of the type. It goes by names:
// those of parameters, receivers and variables of the type, and of variables made by one of the makers.
func assignments(t *testing.T, name, source, of string, makers []string) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, decl := range file.Decls {
		names := map[string]bool{}
		ast.Inspect(decl, func(n ast.Node) bool { named(n, of, makers, names); return true })
		ast.Inspect(decl, func(n ast.Node) bool {
			for _, target := range targets(n) {
				if root, deep := rootOf(target); deep && names[root] {
					found = append(found, fmt.Sprintf("%s: %s", fset.Position(target.Pos()), types.ExprString(target)))
				}
			}
			return true
		})
	}
	return found
}

// named adds the names that a node declares for values of the type.
func named(n ast.Node, of string, makers []string, names map[string]bool) {
	add := func(ident ast.Expr) {
		if id, ok := ident.(*ast.Ident); ok && id.Name != "_" {
			names[id.Name] = true
		}
	}
	switch n := n.(type) {
	case *ast.Field:
		for _, id := range n.Names {
			if isType(n.Type, of) {
				add(id)
			}
		}
	case *ast.ValueSpec:
		for _, id := range n.Names {
			if n.Type != nil && isType(n.Type, of) {
				add(id)
			}
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE && makes(n.Rhs[0], of, makers, names) {
			add(n.Lhs[0])
		}
	}
}

// makes reports whether an expression is a value of the type.
func makes(expr ast.Expr, of string, makers []string, names map[string]bool) bool {
	switch e := expr.(type) {
	case *ast.CallExpr:
		called := types.ExprString(e.Fun)
		return slices.Contains(makers, called[strings.LastIndex(called, ".")+1:])
	case *ast.UnaryExpr:
		return e.Op == token.AND && makes(e.X, of, makers, names)
	case *ast.CompositeLit:
		return e.Type != nil && isType(e.Type, of)
	case *ast.Ident:
		return names[e.Name]
	}
	return false
}

func isType(expr ast.Expr, of string) bool {
	name := strings.TrimPrefix(types.ExprString(expr), "*")
	return name[strings.LastIndex(name, ".")+1:] == of
}

// targets are the expressions that a node changes.
func targets(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		return slices.DeleteFunc([]ast.Expr{n.Key, n.Value}, func(e ast.Expr) bool { return e == nil })
	}
	return nil
}

// rootOf is the variable that an expression leads from; deep is false if it is the variable itself.
func rootOf(expr ast.Expr) (name string, deep bool) {
	for {
		switch e := expr.(type) {
		case *ast.Ident:
			return e.Name, deep
		case *ast.SelectorExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		default:
			return "", false
		}
		deep = true
	}
}
