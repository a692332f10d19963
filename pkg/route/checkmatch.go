// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Bounds of what a match compares with, as in the Gateway API, in characters.
const (
	maxPathValue   = 1024
	maxHeaderValue = 4096
	maxQueryValue  = 1024
)

// methods are those of the Gateway API.
var methods = []string{"", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// The Gateway API's rules for paths of the types Exact and PathPrefix.
var (
	pathCharacters = regexp.MustCompile(`^/([-A-Za-z0-9/._~!$&()*+,;=:@']|%[0-9a-fA-F]{2})*$`)
	pathRefused    = regexp.MustCompile(`//|/[.][.]?/|/[.][.]?$|%2[fF]`)
)

// checkMatch refuses a match. selector is the header that carries the ID, in lower case.
func checkMatch(field string, m *sandbarv1alpha1.SandboxRouteMatch, selector string) error {
	if m.Path != nil {
		if err := checkPath(field+".path", m.Path); err != nil {
			return err
		}
	}
	if !slices.Contains(methods, m.Method) {
		return invalid("%s.method: %q is not a method; use one of %s", field, m.Method, strings.Join(methods[1:], ", "))
	}
	if err := checkHeaders(field+".headers", m.Headers, selector); err != nil {
		return err
	}
	if err := bound(field+".queryParams", "parameters", len(m.QueryParams), 0, sandbarv1alpha1.MaxSandboxRouteQueryParams); err != nil {
		return err
	}
	for i := range m.QueryParams {
		q := &m.QueryParams[i]
		c := condition{q.Type, q.Name, q.Value}
		if err := c.check(fmt.Sprintf("%s.queryParams[%d]", field, i), maxQueryValue); err != nil {
			return err
		}
		if slices.ContainsFunc(m.QueryParams[:i], func(other sandbarv1alpha1.SandboxRouteQueryParamMatch) bool { return other.Name == q.Name }) {
			return invalid("%s.queryParams[%d].name: %s is there twice; leave one out", field, i, q.Name)
		}
	}
	return nil
}

// checkHeaders refuses two headers of one name, and that of the selector. The attack: of two headers of one name in a match
// the Gateway API counts the first and leaves out the other, so that a match of baggage that a tenant writes could stand in
// the place of the selector, and take the requests of all.
func checkHeaders(field string, headers []sandbarv1alpha1.SandboxRouteHeaderMatch, selector string) error {
	if err := bound(field, "headers", len(headers), 0, sandbarv1alpha1.MaxSandboxRouteHeaders); err != nil {
		return err
	}
	for i := range headers {
		h := &headers[i]
		name := strings.ToLower(h.Name)
		c := condition{h.Type, h.Name, h.Value}
		if err := c.check(fmt.Sprintf("%s[%d]", field, i), maxHeaderValue); err != nil {
			return err
		}
		if name == selector {
			return invalid("%s[%d].name: %s is the header of selectorHeaderName; leave it out: each match gets the ID of the group in it", field, i, name)
		}
		if slices.ContainsFunc(headers[:i], func(other sandbarv1alpha1.SandboxRouteHeaderMatch) bool { return strings.ToLower(other.Name) == name }) {
			return invalid("%s[%d].name: %s is there twice; leave one out", field, i, name)
		}
	}
	return nil
}

// condition is a header or a parameter of a query that a request has to have.
type condition struct {
	kind        sandbarv1alpha1.SandboxRouteValueType
	name, value string
}

func (c condition) check(field string, most int) error {
	if len(c.name) > maxToken || !token.MatchString(c.name) {
		return invalid("%s.name: %q is not a token; use at most %d letters, digits and -", field, c.name, maxToken)
	}
	if !plain(c.value, most) {
		return invalid("%s.value: must have from 1 to %d characters, and neither control characters nor a backtick", field, most)
	}
	switch c.kind {
	case sandbarv1alpha1.RouteValueExact, "":
		return nil
	case sandbarv1alpha1.RouteValueExpression:
		return checkExpression(field+".value", c.value)
	}
	return invalid("%s.type: %q is not a type; use Exact or RegularExpression", field, c.kind)
}

func checkPath(field string, p *sandbarv1alpha1.SandboxRoutePathMatch) error {
	kind, value := pathOf(p)
	if !plain(value, maxPathValue) {
		return invalid("%s.value: must have from 1 to %d characters, and neither control characters nor a backtick", field, maxPathValue)
	}
	switch kind {
	case sandbarv1alpha1.RoutePathExpression:
		return checkExpression(field+".value", value)
	case sandbarv1alpha1.RoutePathExact, sandbarv1alpha1.RoutePathPrefix:
		if !pathCharacters.MatchString(value) {
			return invalid("%s.value: %q must begin with / and have only characters of a path, others as %%20", field, value)
		}
		if pathRefused.MatchString(value) {
			return invalid("%s.value: %q must not contain //, /./, /../ or %%2F, nor end with /. or /..", field, value)
		}
		return nil
	}
	return invalid("%s.type: %q is not a type; use Exact, PathPrefix or RegularExpression", field, kind)
}

// checkExpression refuses what is not a regular expression of RE2: a controller that cannot read it refuses the whole route.
func checkExpression(field, value string) error {
	if _, err := regexp.Compile(value); err != nil {
		return invalid("%s: is not a regular expression (RE2): %v", field, err)
	}
	return nil
}

// pathOf is the path of a match, / with all that is below it by default.
func pathOf(p *sandbarv1alpha1.SandboxRoutePathMatch) (sandbarv1alpha1.SandboxRoutePathType, string) {
	kind, value := sandbarv1alpha1.RoutePathPrefix, "/"
	if p != nil && p.Type != "" {
		kind = p.Type
	}
	if p != nil && p.Value != "" {
		value = p.Value
	}
	return kind, value
}
