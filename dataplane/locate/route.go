// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// defaultNamespace is the namespace of paths that name none.
	defaultNamespace = "default"
	// defaultGroup and defaultVersion are those of the short path forms.
	defaultGroup   = "sandbar.dev"
	defaultVersion = "v1alpha1"
	// TemplatesSegment stands where a resource would, with nothing behind it: the catalogue of Templates.
	TemplatesSegment = "templates"
	// BaselinesSegment is that of the catalogue of Baselines.
	BaselinesSegment = "baselines"
)

// Route is what a request's path says.
type Route struct {
	// Workspace is a workspace path or a logical cluster name.
	Workspace string
	Namespace string
	Group     string
	Version   string
	Resource  string
	Name      string
	// Component is empty for the instance's own verbs.
	Component string
	// Port is the port that the path names, by name or number; empty if it names none.
	Port string
	Verb string
	// Tail is the rest of the path, byte for byte as it came: empty, or starting with "/".
	Tail string
	// Prefix is the path up to the tail in a valid encoding, for headers and links that an app builds.
	Prefix string
	// PreviewHost is the host name of the preview that the request came to; empty for a path.
	PreviewHost string
	// Catalogue is the segment of a catalogue; then only workspace is set besides. Empty for everything else.
	Catalogue string
}

// Router reads paths. It is pure and does not use http.ServeMux, which cleans paths by
// redirecting and would so decide differently from what is forwarded.
type Router struct {
	// Prefix is where a hub mounts the data plane, for example
	// "/services/providers/infrastructure"; empty for none.
	Prefix string
}

// Parse reads what a request asks for. All forms lead to the same route:
//
//	[prefix]/dataplane/clusters/{ws}/templates
//	[prefix]/dataplane/clusters/{ws}/baselines
//	[prefix]/dataplane/clusters/{ws}/[namespaces/{ns}/]{resource}/{name}/[components/{component}/]{verb}[/{tail}]
//	[/services/{any}]/clusters/{ws}/apis/{group}/{version}/namespaces/{ns}/{resource}/{name}/[components/…/]{verb}[/{tail}]
//
// Before the verb, ports/{port}/ may name a port by name or number, for verbs that lead to any.
func (p Router) Parse(in *http.Request) (Route, *refusal.Error) {
	path := rawPath(in)
	if refused := checkTarget(path, in.URL.RawQuery); refused != nil {
		return Route{}, refused
	}
	r, refused := p.parse(path)
	if refused == nil && r.Verb != contract.ProxyVerb {
		refused = checkQuery(in.URL.RawQuery)
	}
	return r, refused
}

func (p Router) parse(path string) (Route, *refusal.Error) {
	if p.Prefix != "" {
		if rest, ok := strings.CutPrefix(path, p.Prefix+"/dataplane/"); ok {
			return parseShort(path, rest)
		}
	}
	if rest, ok := strings.CutPrefix(path, "/dataplane/"); ok {
		return parseShort(path, rest)
	}
	rest := strings.TrimPrefix(path, "/")
	if inService, ok := strings.CutPrefix(rest, "services/"); ok {
		service, behind, _ := strings.Cut(inService, "/")
		if service != "" {
			rest = behind
		}
	}
	return parseKubernetes(path, rest)
}

func parseShort(whole, rest string) (Route, *refusal.Error) {
	s := segments{rest: rest}
	s.literal("clusters")
	r := Route{
		Group: defaultGroup, Version: defaultVersion, Namespace: defaultNamespace,
		Workspace: s.next(IsWorkspace),
	}
	if s.rest == TemplatesSegment || s.rest == BaselinesSegment {
		r.Catalogue = s.rest
		return r, s.refused
	}
	if inNamespace, ok := strings.CutPrefix(s.rest, "namespaces/"); ok {
		s.rest = inNamespace
		r.Namespace = s.next(IsLabel)
	}
	r.parseObject(whole, &s)
	return r, s.refused
}

func parseKubernetes(whole, rest string) (Route, *refusal.Error) {
	s := segments{rest: rest}
	s.literal("clusters")
	r := Route{Workspace: s.next(IsWorkspace)}
	s.literal("apis")
	r.Group = s.next(isSubdomain)
	r.Version = s.next(IsLabel)
	s.literal("namespaces")
	r.Namespace = s.next(IsLabel)
	r.parseObject(whole, &s)
	return r, s.refused
}

// parseObject reads what all forms have in common: {resource}/{name}/…{verb}[/{tail}].
func (r *Route) parseObject(whole string, s *segments) {
	r.Resource = s.next(IsLabel)
	r.Name = s.next(isSubdomain)
	r.Verb = s.next(IsLabel)
	if r.Verb == "components" {
		r.Component = s.next(IsLabel)
		r.Verb = s.next(IsLabel)
	}
	if r.Verb == "ports" {
		r.Port = s.next(contract.IsPort)
		r.Verb = s.next(IsLabel)
	}
	if s.refused != nil {
		return
	}
	if !s.ended {
		r.Tail = "/" + s.rest
	}
	r.Prefix = validlyEncoded(strings.TrimSuffix(whole, r.Tail))
	if climbs(r.Tail) {
		s.refused = refusal.Malformed("the path behind the verb must not contain . or .. segments, NUL, or a character in more bytes than it needs, encoded or not")
	}
}

// segments takes an escaped path apart from the left. The first refusal stays.
type segments struct {
	rest    string
	ended   bool // no slash followed the segment that was taken last
	refused *refusal.Error
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
		s.refused = refusal.Malformed("the path is not one of the data plane: it looks like /dataplane/clusters/{workspace}/namespaces/{namespace}/{resource}/{name}/{verb}")
	}
}

// IsLabel tells whether s is a DNS label (RFC 1123).
func IsLabel(s string) bool {
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
	return len(s) <= 253 && all(s, ".", IsLabel)
}

// IsWorkspace tells whether s is a workspace path or a logical cluster name: DNS labels
// joined by colons.
func IsWorkspace(s string) bool {
	return len(s) <= 1024 && all(s, ":", IsLabel)
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

// IsWhole tells whether a path named everything that it must. The router checks each name, so
// nothing of a path that was refused gets into a line.
func (r Route) IsWhole() bool {
	return r.Workspace != "" && (r.Catalogue != "" || r.Resource != "" && r.Name != "" && r.Verb != "" && r.Namespace != "")
}

// SandboxTemplates is the resource of the one kind without a Template that has a verb of its own.
const SandboxTemplates = "sandboxtemplates"

// Claims reports whether the route is that of the verb claim of a SandboxTemplate.
func (r Route) Claims() bool {
	return r.Group == defaultGroup && r.Version == defaultVersion && r.Resource == SandboxTemplates &&
		r.Verb == contract.ClaimVerb && r.Component == "" && r.Port == "" && r.Tail == ""
}

// Ref is the object that the route names.
func (r Route) Ref() tenant.Ref {
	return tenant.Ref{
		Workspace: r.Workspace, Group: r.Group, Version: r.Version, Resource: r.Resource,
		Namespace: r.Namespace, Name: r.Name,
	}
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
