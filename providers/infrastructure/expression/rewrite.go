// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
	kroparser "github.com/kubernetes-sigs/kro/pkg/graph/parser"
)

// parse reads an expression without expanding macros. A macro hides the names of its variables in
// the expression that it becomes; without it every identifier stands where it was written.
func parse(expr string) (*ast.AST, error) {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true), parser.Macros())
	if err != nil {
		return nil, fmt.Errorf("making a parser: %w", err)
	}
	parsed, problems := p.Parse(common.NewTextSource(expr))
	if problems != nil && len(problems.GetErrors()) > 0 {
		return nil, fmt.Errorf("parsing %q: %s", expr, problems.ToDisplayString())
	}
	return parsed, nil
}

// Rename returns the expression with every identifier replaced by what rename makes of it.
// Variables of macros are renamed with their uses, so that the expression means the same.
func Rename(expr string, rename func(id string) string) (string, error) {
	parsed, err := parse(expr)
	if err != nil {
		return "", err
	}
	type place struct {
		at   int32
		name string
	}
	var places []place
	ast.PreOrderVisit(parsed.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind || rename(e.AsIdent()) == e.AsIdent() {
			return
		}
		if at, ok := parsed.SourceInfo().GetOffsetRange(e.ID()); ok {
			places = append(places, place{at.Start, e.AsIdent()})
		}
	}))
	slices.SortFunc(places, func(a, b place) int { return int(b.at - a.at) })
	runes := []rune(expr) // offsets are those of code points
	for _, p := range places {
		end := int(p.at) + len([]rune(p.name))
		if end > len(runes) || string(runes[p.at:end]) != p.name {
			return "", fmt.Errorf("renaming %s in %q: it is written in a way that cannot be renamed", p.name, expr)
		}
		runes = slices.Concat(runes[:p.at], []rune(rename(p.name)), runes[end:])
	}
	return string(runes), nil
}

// Map returns a copy of a value of a graph in which change has replaced each expression.
func Map(value any, change func(expr string) (string, error)) (any, error) {
	switch v := value.(type) {
	case string:
		return mapText(v, change)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			changed, err := Map(item, change)
			if err != nil {
				return nil, err
			}
			out[i] = changed
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			changed, err := Map(v[key], change)
			if err != nil {
				return nil, err
			}
			out[key] = changed
		}
		return out, nil
	}
	return value, nil
}

func mapText(text string, change func(expr string) (string, error)) (string, error) {
	found, err := kroparser.ExtractExpressions(text)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", text, err)
	}
	var out strings.Builder
	for _, expr := range found {
		before, after, _ := strings.Cut(text, Wrap(expr))
		changed, err := change(expr)
		if err != nil {
			return "", err
		}
		out.WriteString(before + Wrap(changed))
		text = after
	}
	return out.String() + text, nil
}
