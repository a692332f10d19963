// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/liggitt/tabwriter"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/pkg/termsafe"
)

// customColumns prints the columns that a person describes as NAME:.path,….
type customColumns struct {
	headers []string
	paths   []*jsonpath.JSONPath
	// noHeaders is set from the beginning, or once the line with the names has been printed.
	noHeaders bool
	// lines remembers how wide the columns are; nil before the first line.
	lines *tabwriter.Writer
}

func parseCustomColumns(spec string, noHeaders bool) (objectPrinter, error) {
	c := &customColumns{noHeaders: noHeaders}
	for column := range strings.SplitSeq(strings.TrimSpace(spec), ",") {
		header, expression, ok := strings.Cut(column, ":")
		if !ok || header == "" || expression == "" {
			return nil, fmt.Errorf("%q is not NAME:PATH, such as NAME:.metadata.name", column)
		}
		path, err := parsePath(expression)
		if err != nil {
			return nil, err
		}
		c.headers, c.paths = append(c.headers, header), append(c.paths, path)
	}
	return c, nil
}

func (*customColumns) columns() bool { return false }
func (*customColumns) says() bool    { return true }

func (c *customColumns) print(out io.Writer, s Showing) error {
	if c.lines == nil {
		c.lines = printers.GetNewTabWriter(out)
	}
	w := c.lines
	if !c.noHeaders {
		fmt.Fprintln(w, strings.Join(c.headers, "\t"))
		c.noHeaders = true
	}
	for _, item := range s.items {
		var cells []string
		for _, path := range c.paths {
			found := valuesAt(path, item.Object)
			if len(found) == 0 {
				found = []string{cli.None}
			}
			cells = append(cells, termsafe.Line(strings.Join(found, ",")))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// pathForm is a JSONPath with or without its braces and its leading dot, as kubectl takes it.
var pathForm = regexp.MustCompile(`^(?:\{\s*\.?([^{}]+)\}|\.?([^{}]+))$`)

func parsePath(expression string) (*jsonpath.JSONPath, error) {
	m := pathForm.FindStringSubmatch(strings.TrimSpace(expression))
	if m == nil {
		return nil, fmt.Errorf("%q is not the path of a field, such as .metadata.name", expression)
	}
	inner := m[1] + m[2]
	if !strings.HasPrefix(inner, "[") {
		inner = "." + inner
	}
	p := jsonpath.New(expression).AllowMissingKeys(true)
	if err := p.Parse("{" + inner + "}"); err != nil {
		return nil, fmt.Errorf("%q is not the path of a field, such as .metadata.name: %w", expression, err)
	}
	return p, nil
}

// errNoValue means that an object has nothing at a path.
var errNoValue = errors.New("no value")

// valueAt returns the first value at a path.
func valueAt(p *jsonpath.JSONPath, object map[string]any) (any, error) {
	results, err := p.FindResults(object)
	if err != nil {
		return nil, err
	}
	for _, list := range results {
		for _, value := range list {
			if value.IsValid() && value.CanInterface() && value.Interface() != nil {
				return value.Interface(), nil
			}
		}
	}
	return nil, errNoValue
}

// valuesAt returns all values at a path as text.
func valuesAt(p *jsonpath.JSONPath, object map[string]any) []string {
	results, err := p.FindResults(object)
	if err != nil {
		return nil
	}
	var texts []string
	for _, list := range results {
		for _, value := range list {
			if value.IsValid() && value.CanInterface() && value.Interface() != nil {
				texts = append(texts, fmt.Sprint(value.Interface()))
			}
		}
	}
	return texts
}
