// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/url"
	"strings"

	"github.com/sandbar-dev/sandbar/pkg/contract"
)

const (
	// defaultNamespace is the namespace of paths that name none.
	defaultNamespace = "default"
	// defaultGroup and defaultVersion are those of the short path forms.
	defaultGroup   = "sandbar.dev"
	defaultVersion = "v1alpha1"
	// catalogueSegment stands where a resource would, with nothing behind it.
	catalogueSegment = "templates"
	// maxQueryParameters is far above what any verb needs. net/http's reverse proxy treats
	// queries with very many parameters differently from the backend (CVE-2026-39825).
	maxQueryParameters = 200
)

// route is what a request's path says.
type route struct {
	// workspace is a workspace path or a logical cluster name.
	workspace string
	namespace string
	group     string
	version   string
	resource  string
	name      string
	// component is empty for the instance's own verbs.
	component string
	// port is the port that the path names, by name or number; empty if it names none.
	port string
	verb string
	// tail is the rest of the path, escaped as it came: empty, or starting with "/".
	tail string
	// prefix is the escaped path up to the tail, for links that an app builds.
	prefix string
	// previewHost is the host name of the preview that the request came to; empty for a path.
	previewHost string
	// catalogue is set for the catalogue of Templates; then only workspace is set besides.
	catalogue bool
}

// router reads paths. It is pure and does not use http.ServeMux, which cleans paths by
// redirecting and would so decide differently from what is forwarded.
type router struct {
	// prefix is where a hub mounts the data plane, for example
	// "/services/providers/infrastructure"; empty for none.
	prefix string
}

// parse reads a request's URL. All forms lead to the same route:
//
//	[prefix]/dataplane/clusters/{ws}/templates
//	[prefix]/dataplane/clusters/{ws}/[namespaces/{ns}/]{resource}/{name}/[components/{component}/]{verb}[/{tail}]
//	[/services/{any}]/clusters/{ws}/apis/{group}/{version}/namespaces/{ns}/{resource}/{name}/[components/…/]{verb}[/{tail}]
//
// Before the verb, ports/{port}/ may name a port by name or number, for verbs that lead to any.
func (p router) parse(u *url.URL) (route, *refusal) {
	escaped := u.EscapedPath()
	if refused := checkQuery(u.RawQuery); refused != nil {
		return route{}, refused
	}
	if p.prefix != "" {
		if rest, ok := strings.CutPrefix(escaped, p.prefix+"/dataplane/"); ok {
			return parseShort(escaped, rest)
		}
	}
	if rest, ok := strings.CutPrefix(escaped, "/dataplane/"); ok {
		return parseShort(escaped, rest)
	}
	rest := strings.TrimPrefix(escaped, "/")
	if inService, ok := strings.CutPrefix(rest, "services/"); ok {
		service, behind, _ := strings.Cut(inService, "/")
		if service != "" {
			rest = behind
		}
	}
	return parseKubernetes(escaped, rest)
}

func parseShort(whole, rest string) (route, *refusal) {
	s := segments{rest: rest}
	s.literal("clusters")
	r := route{
		group: defaultGroup, version: defaultVersion, namespace: defaultNamespace,
		workspace: s.next(isWorkspace),
	}
	if s.rest == catalogueSegment {
		r.catalogue = true
		return r, s.refused
	}
	if inNamespace, ok := strings.CutPrefix(s.rest, "namespaces/"); ok {
		s.rest = inNamespace
		r.namespace = s.next(isLabel)
	}
	r.parseObject(whole, &s)
	return r, s.refused
}

func parseKubernetes(whole, rest string) (route, *refusal) {
	s := segments{rest: rest}
	s.literal("clusters")
	r := route{workspace: s.next(isWorkspace)}
	s.literal("apis")
	r.group = s.next(isSubdomain)
	r.version = s.next(isLabel)
	s.literal("namespaces")
	r.namespace = s.next(isLabel)
	r.parseObject(whole, &s)
	return r, s.refused
}

// parseObject reads what all forms have in common: {resource}/{name}/…{verb}[/{tail}].
func (r *route) parseObject(whole string, s *segments) {
	r.resource = s.next(isLabel)
	r.name = s.next(isSubdomain)
	r.verb = s.next(isLabel)
	if r.verb == "components" {
		r.component = s.next(isLabel)
		r.verb = s.next(isLabel)
	}
	if r.verb == "ports" {
		r.port = s.next(contract.IsPort)
		r.verb = s.next(isLabel)
	}
	if s.refused != nil {
		return
	}
	if !s.ended {
		r.tail = "/" + s.rest
	}
	r.prefix = strings.TrimSuffix(whole, r.tail)
	if climbs(r.tail) {
		s.refused = malformed("the path behind the verb must not contain . or .. segments, encoded or not")
	}
}

// segments takes an escaped path apart from the left. The first refusal stays.
type segments struct {
	rest    string
	ended   bool // no slash followed the segment that was taken last
	refused *refusal
}

func (s *segments) take() string {
	if s.ended {
		return ""
	}
	segment, rest, more := strings.Cut(s.rest, "/")
	s.rest, s.ended = rest, !more
	return segment
}

func (s *segments) literal(want string) {
	if s.take() != want {
		s.refuse()
	}
}

// next takes a segment, decodes it once and lets it through if valid says so. What valid
// accepts is a handful of ASCII characters, so that slashes, percent signs, dots that climb,
// control characters and broken UTF-8 are refused in one place, whatever way they came.
func (s *segments) next(valid func(string) bool) string {
	segment, err := url.PathUnescape(s.take())
	if err != nil || !valid(segment) {
		s.refuse()
		return ""
	}
	return segment
}

func (s *segments) refuse() {
	if s.refused == nil {
		s.refused = malformed("the path is not one of the data plane: it looks like /dataplane/clusters/{workspace}/namespaces/{namespace}/{resource}/{name}/{verb}")
	}
}

// isLabel tells whether s is a DNS label (RFC 1123).
func isLabel(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if !isLowerAlphanumeric(s[i]) && s[i] != '-' {
			return false
		}
	}
	return true
}

// isSubdomain tells whether s is a DNS subdomain (RFC 1123).
func isSubdomain(s string) bool {
	return len(s) <= 253 && all(s, ".", isLabel)
}

// isWorkspace tells whether s is a workspace path or a logical cluster name: DNS labels
// joined by colons.
func isWorkspace(s string) bool {
	return len(s) <= 1024 && all(s, ":", isLabel)
}

func all(s, separator string, valid func(string) bool) bool {
	for part := range strings.SplitSeq(s, separator) {
		if !valid(part) {
			return false
		}
	}
	return true
}

func isLowerAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
}

// climbs tells whether a tail holds a segment that could leave the path it is appended to,
// read as whoever stands behind us might read it: decoded never, once or twice, with
// backslashes as slashes, and with the path parameters ("..;a=b") that some servers cut off.
func climbs(tail string) bool {
	for range 3 {
		for segment := range strings.FieldsFuncSeq(tail, func(r rune) bool { return r == '/' || r == '\\' }) {
			segment, _, _ = strings.Cut(segment, ";")
			if segment == "." || segment == ".." {
				return true
			}
		}
		decoded, err := url.PathUnescape(tail)
		if err != nil {
			// Only what we decoded ourselves can be a broken escape; a server that decodes
			// twice would refuse it too.
			return false
		}
		// NUL ends a path for some servers, and C0 and C1 begin overlong encodings of "."
		// and "/"; neither is part of any UTF-8 text.
		if strings.ContainsAny(decoded, "\x00") || strings.IndexByte(decoded, 0xc0) >= 0 || strings.IndexByte(decoded, 0xc1) >= 0 {
			return true
		}
		if decoded == tail {
			return false
		}
		tail = decoded
	}
	return false
}

// checkQuery refuses queries that two parsers could read differently. The parameters decide
// nothing here.
func checkQuery(query string) *refusal {
	if strings.Count(query, "&") >= maxQueryParameters {
		return malformed("the query has more than 200 parameters")
	}
	for i := range len(query) {
		c := query[i]
		if c == '%' && (i+2 >= len(query) || !isHex(query[i+1]) || !isHex(query[i+2])) {
			return malformed("the query has a percent sign that no two hexadecimal digits follow")
		}
		if c <= ' ' || c == 0x7f {
			return malformed("the query has a control character or a space")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
