// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Uses are the entries of a map that expressions read.
type Uses struct {
	// Required are the keys without which an expression has no value, Optional those that it
	// asks for first: has(m.key), m.?key and m[?"key"].
	Required, Optional map[string]bool
	// All is true if some expression reads the map as a whole, or by a key that it computes.
	All bool
}

// NewUses returns Uses of nothing.
func NewUses() *Uses { return &Uses{Required: map[string]bool{}, Optional: map[string]bool{}} }

// Add adds what the expression reads of the map at root.field.
func (u *Uses) Add(expr, root, field string) error {
	parsed, err := parse(expr)
	if err != nil {
		return err
	}
	(&finder{uses: u, root: root, field: field}).visit(parsed.Expr(), false)
	return nil
}

type finder struct {
	uses        *Uses
	root, field string
}

func (f *finder) visit(e ast.Expr, asked bool) {
	switch e.Kind() {
	case ast.IdentKind:
		f.uses.All = f.uses.All || e.AsIdent() == f.root
	case ast.SelectKind:
		f.visitSelect(e, asked)
	case ast.CallKind:
		f.visitCall(e)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			f.visit(item, false)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			f.visit(entry.AsMapEntry().Key(), false)
			f.visit(entry.AsMapEntry().Value(), false)
		}
	case ast.StructKind:
		for _, entry := range e.AsStruct().Fields() {
			f.visit(entry.AsStructField().Value(), false)
		}
	case ast.LiteralKind, ast.UnspecifiedExprKind, ast.ComprehensionKind:
		// Nothing is read; macros are parsed as calls (parse), so there are no comprehensions.
	}
}

func (f *finder) visitSelect(e ast.Expr, asked bool) {
	operand := e.AsSelect().Operand()
	switch {
	case f.isMap(operand):
		f.read(e.AsSelect().FieldName(), asked)
	case f.isMap(e):
		f.uses.All = true
	case isIdent(operand, f.root): // another field of the object
	default:
		f.visit(operand, false)
	}
}

func (f *finder) visitCall(e ast.Expr) {
	call := e.AsCall()
	args := call.Args()
	if call.FunctionName() == operators.Has && len(args) == 1 {
		f.visit(args[0], true)
		return
	}
	optional := call.FunctionName() == operators.OptSelect || call.FunctionName() == operators.OptIndex
	if (optional || call.FunctionName() == operators.Index) && len(args) == 2 && f.isMap(args[0]) {
		if key, ok := literal(args[1]); ok {
			f.read(key, optional)
			return
		}
	}
	if call.IsMemberFunction() {
		f.visit(call.Target(), false)
	}
	for _, arg := range args {
		f.visit(arg, false)
	}
}

func (f *finder) read(key string, asked bool) {
	if asked {
		f.uses.Optional[key] = true
		return
	}
	f.uses.Required[key] = true
}

// isMap reports whether the expression is root.field.
func (f *finder) isMap(e ast.Expr) bool {
	return e.Kind() == ast.SelectKind && e.AsSelect().FieldName() == f.field && isIdent(e.AsSelect().Operand(), f.root)
}

func isIdent(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}
