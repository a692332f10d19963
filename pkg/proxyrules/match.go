// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// match is what a request has to meet in addition to the ID, with the meaning of the Gateway API.
type match struct {
	method  string // empty for any
	path    value
	prefix  string // of whole elements, without a slash at the end; if path is not set
	headers []named
	queries []named
}

// named is a header, by its canonical name, or a parameter of a query.
type named struct {
	name string
	value
}

// value is what something is compared with: an expression if that is set, else the text.
type value struct {
	text       string
	expression *expression
	isSet      bool
}

func (v *value) matches(got string, b *budget) (bool, error) {
	if v.expression != nil {
		return v.expression.matches(got, b)
	}
	return got == v.text, nil
}

func compileMatch(field string, from *sandbarv1alpha1.SandboxRouteMatch, selector string) (match, error) {
	m := match{method: from.Method}
	if !slices.Contains(methods, m.method) {
		return m, fmt.Errorf("%s.method: %q is not a method", field, m.method)
	}
	if err := m.compilePath(field+".path", from.Path); err != nil {
		return m, err
	}
	if len(from.Headers) > sandbarv1alpha1.MaxSandboxRouteHeaders || len(from.QueryParams) > sandbarv1alpha1.MaxSandboxRouteQueryParams {
		return m, fmt.Errorf("%s: has more than %d headers or %d parameters", field, sandbarv1alpha1.MaxSandboxRouteHeaders, sandbarv1alpha1.MaxSandboxRouteQueryParams)
	}
	for i, h := range from.Headers {
		at := fmt.Sprintf("%s.headers[%d]", field, i)
		if strings.EqualFold(h.Name, selector) {
			return m, fmt.Errorf("%s.name: %s is the header of the ID", at, selector)
		}
		v, err := compileValue(at, h.Type, h.Value)
		if err != nil {
			return m, err
		}
		m.headers = append(m.headers, named{textproto.CanonicalMIMEHeaderKey(h.Name), v})
	}
	for i, q := range from.QueryParams {
		v, err := compileValue(fmt.Sprintf("%s.queryParams[%d]", field, i), q.Type, q.Value)
		if err != nil {
			return m, err
		}
		m.queries = append(m.queries, named{q.Name, v})
	}
	return m, nil
}

// methods are those of the Gateway API.
var methods = []string{"", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

func (m *match) compilePath(field string, path *sandbarv1alpha1.SandboxRoutePathMatch) error {
	if path == nil {
		return nil
	}
	switch path.Type {
	case sandbarv1alpha1.RoutePathPrefix, "":
		if path.Value != "" && path.Value[0] != '/' {
			return fmt.Errorf("%s.value: %q does not begin with a slash", field, path.Value)
		}
		m.prefix = strings.TrimRight(path.Value, "/")
		return nil
	case sandbarv1alpha1.RoutePathExact:
		if !strings.HasPrefix(path.Value, "/") {
			return fmt.Errorf("%s.value: %q does not begin with a slash", field, path.Value)
		}
		m.path = value{text: path.Value, isSet: true}
		return nil
	case sandbarv1alpha1.RoutePathExpression:
		compiled, err := compileExpression(path.Value)
		if err != nil {
			return fmt.Errorf("%s.value: %q %w", field, path.Value, err)
		}
		m.path = value{expression: compiled, isSet: true}
		return nil
	}
	return fmt.Errorf("%s.type: %q is not a type; use Exact, PathPrefix or RegularExpression", field, path.Type)
}

func compileValue(field string, kind sandbarv1alpha1.SandboxRouteValueType, text string) (value, error) {
	switch kind {
	case sandbarv1alpha1.RouteValueExact, "":
		return value{text: text, isSet: true}, nil
	case sandbarv1alpha1.RouteValueExpression:
		compiled, err := compileExpression(text)
		if err != nil {
			return value{}, fmt.Errorf("%s.value: %q %w", field, text, err)
		}
		return value{expression: compiled, isSet: true}, nil
	}
	return value{}, fmt.Errorf("%s.type: %q is not a type; use Exact or RegularExpression", field, kind)
}

// matches reports whether a request meets the match. target is the request's, as it came.
func (m *match) matches(r *http.Request, target *target, b *budget) (bool, error) {
	if m.method != "" && m.method != r.Method {
		return false, nil
	}
	if ok, err := m.matchesPath(target.path, b); !ok {
		return false, err
	}
	for i := range m.headers {
		h := &m.headers[i]
		got, found := target.header(r.Header, h.name)
		if !found {
			return false, nil
		}
		if ok, err := h.matches(got, b); !ok {
			return false, err
		}
	}
	for i := range m.queries {
		q := &m.queries[i]
		got, found := target.parameter(q.name)
		if !found {
			return false, nil
		}
		if ok, err := q.matches(got, b); !ok {
			return false, err
		}
	}
	return true, nil
}

// matchesPath compares the path byte by byte as the client sent it: neither decoded nor cleaned, since the backend gets it
// so. %2F is not a slash here, // is an element that is empty, and /a/../b begins with /a.
//
// The attack: a path that the rule and the backend understand in different ways, such as /public/..%2Fadmin. It leads
// nobody else's requests anywhere: the request has the ID of the sandbox, by which its sender asked for it.
func (m *match) matchesPath(path string, b *budget) (bool, error) {
	if m.path.isSet {
		return m.path.matches(path, b)
	}
	rest, ok := strings.CutPrefix(path, m.prefix)
	return ok && (rest == "" || rest[0] == '/' || m.prefix == ""), nil
}

// target is what a request asks for, as it came. What is made of it to be compared is made once for all rules.
//
// The attack: rules with many parameters and headers, and a request with a query and headers of 60 KiB, which each of the rules would
// walk through again: seconds of the processor that is also the baseline's.
type target struct {
	path, query string
	// parameters are those of the query, nil before they are needed, and headers those of several lines.
	parameters map[string]string
	headers    map[string]string
}

// targetOf splits the target of a request. net/http has checked it; the absolute form is reduced to its path.
func targetOf(r *http.Request) target {
	uri := r.RequestURI
	if !strings.HasPrefix(uri, "/") && uri != "*" {
		uri = r.URL.RequestURI()
	}
	path, query, _ := strings.Cut(uri, "?")
	return target{path: path, query: query}
}

// header is the value of a header. Several lines are one value with commas (RFC 9110 section 5.3), as Envoy compares them.
func (t *target) header(h http.Header, name string) (string, bool) {
	lines := h[name]
	if len(lines) < 2 {
		return strings.Join(lines, ""), len(lines) > 0
	}
	joined, ok := t.headers[name]
	if !ok {
		if t.headers == nil {
			t.headers = map[string]string{}
		}
		joined = strings.Join(lines, ",")
		t.headers[name] = joined
	}
	return joined, true
}

// parameter is the first value of a parameter of the query.
func (t *target) parameter(name string) (string, bool) {
	if t.parameters == nil {
		t.parameters = parametersOf(t.query)
	}
	value, found := t.parameters[name]
	return value, found
}

// parametersOf are the first values of the parameters of a query, decoded as HTML forms are. Pairs that cannot be decoded are
// not compared.
func parametersOf(query string) map[string]string {
	all := map[string]string{}
	for query != "" {
		pair, rest, _ := strings.Cut(query, "&")
		query = rest
		key, text, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			continue
		}
		if _, there := all[key]; there {
			continue
		}
		if text, err := url.QueryUnescape(text); err == nil {
			all[key] = text
		}
	}
	return all
}
