// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kubernetes-sigs/kro/pkg/graph/parser"
)

// expression is CEL that kro shall evaluate as it is.
type expression string

// celOf writes a value of a graph as one CEL expression that gives what kro would have made of
// the value: an expression in it stays one, and all else is a literal.
func celOf(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "null", nil
	case expression:
		return "(" + string(v) + ")", nil
	case string:
		return celOfText(v)
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
			text, err := celOf(item)
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
			text, err := celOf(v[key])
			if err != nil {
				return "", err
			}
			entries = append(entries, celLiteral(key)+": dyn("+text+")")
		}
		return "{" + strings.Join(entries, ", ") + "}", nil
	default:
		return "", fmt.Errorf("a %T is no value of a graph", value)
	}
}

// celOfText writes a text with ${…} as kro reads it: pieces that are put together.
func celOfText(text string) (string, error) {
	found, err := parser.ExtractExpressions(text)
	if err != nil {
		return "", fmt.Errorf("reading %q: %w", text, err)
	}
	var pieces []string
	for _, expr := range found {
		before, after, _ := strings.Cut(text, "${"+expr+"}")
		if before != "" {
			pieces = append(pieces, celLiteral(before))
		}
		pieces = append(pieces, "("+expr+")")
		text = after
	}
	if text != "" || len(pieces) == 0 {
		pieces = append(pieces, celLiteral(text))
	}
	return strings.Join(pieces, " + "), nil
}

// celLiteral writes a text as a literal of CEL, whose escapes are those of Go. It holds no
// dollar sign, so that kro finds no expression in it whatever the text says.
func celLiteral(text string) string {
	return strings.ReplaceAll(strconv.Quote(text), "$", `\x24`)
}

// verbatim writes a text that shall reach an environment variable as it is, past kro and past
// Kubernetes, which expands $(NAME) in values and makes $$ one dollar sign.
func verbatim(text string) expression {
	return expression(celLiteral(strings.ReplaceAll(text, "$", "$$")))
}

// wrapped is an expression as a graph holds it.
func wrapped(expr string) string { return "${" + expr + "}" }
