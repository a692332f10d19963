// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package expression writes and reads the CEL in a kro graph: it makes expressions of values, and
// changes and inspects the expressions that a graph has. It is pure.
package expression

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-sigs/kro/pkg/graph/parser"
)

// Raw is CEL that kro evaluates as it is.
type Raw string

// Of writes a value of a graph as one CEL expression with the result that kro would have made of
// the value: an expression in it stays one, and all else is a literal.
func Of(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "null", nil
	case Raw:
		return "(" + string(v) + ")", nil
	case string:
		return ofText(v)
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case float64: // what encoding/json makes of every number
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatInt(int64(v), 10), nil
		}
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, err := Of(item)
			if err != nil {
				return "", err
			}
			// Without dyn, CEL wants all of a list to be of one type.
			items[i] = "dyn(" + text + ")"
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	case map[string]any:
		entries := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, err := Of(v[key])
			if err != nil {
				return "", err
			}
			entries = append(entries, Literal(key)+": dyn("+text+")")
		}
		return "{" + strings.Join(entries, ", ") + "}", nil
	default:
		return "", fmt.Errorf("a %T is no value of a graph", value)
	}
}

// ofText writes a text with ${…} as kro reads it: pieces that are put together.
func ofText(text string) (string, error) {
	found, err := parser.ExtractExpressions(text)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", text, err)
	}
	var pieces []string
	for _, expr := range found {
		before, after, _ := strings.Cut(text, "${"+expr+"}")
		if before != "" {
			pieces = append(pieces, Literal(before))
		}
		pieces = append(pieces, "("+expr+")")
		text = after
	}
	if text != "" || len(pieces) == 0 {
		pieces = append(pieces, Literal(text))
	}
	return strings.Join(pieces, " + "), nil
}

// Literal writes a text as a literal of CEL, whose escapes are those of Go. It holds no
// dollar sign, so that kro finds no expression in it whatever the text says.
func Literal(text string) string {
	return strings.ReplaceAll(strconv.Quote(text), "$", `\x24`)
}

// Wrap is an expression as a graph holds it.
func Wrap(expr string) string { return "${" + expr + "}" }
