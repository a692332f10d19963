// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// MaxComponentLength is how long a component's name may be to have a preview: with it, two
	// hyphens and the placement's namespace, a host name's label is full (63 characters).
	MaxComponentLength = 30

	separator = "--"
	// punycode begins a label that browsers decode to something else.
	punycode        = "xn" + separator
	namespaceLength = 29
	maxLabelLength  = 63
	maxDomainLength = 190
)

var (
	// ErrDomain means that a preview domain is not host[:port].
	ErrDomain = errors.New("not a domain with an optional port, such as preview.example.com or localhost:8443")
	// ErrComponent means that a component's name cannot be part of a host name.
	ErrComponent = fmt.Errorf("a component with a preview needs a name of at most %d characters that does not begin with xn", MaxComponentLength)
	// ErrPort means that a port cannot be part of a host name, by itself or beside a component.
	ErrPort = errors.New("a port with a preview is named by its number, and a component with it by at most 26 characters")
)

// Domain is the domain below which every instance has a host name. The zero value has no hosts.
type Domain struct {
	host string
	port string // empty, or ":" and a number
}

// ParseDomain reads host[:port]. The port is the public one, at which browsers come; none means
// 443.
func ParseDomain(s string) (Domain, error) {
	host, port := s, ""
	if name, number, ok := strings.Cut(s, ":"); ok {
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != number {
			return Domain{}, fmt.Errorf("%q is %w", s, ErrDomain)
		}
		host = name
		if n != 443 {
			port = ":" + number // browsers leave 443 out of Host and Origin
		}
	}
	if len(host) > maxDomainLength || net.ParseIP(host) != nil {
		return Domain{}, fmt.Errorf("%q is %w", s, ErrDomain)
	}
	for label := range strings.SplitSeq(host, ".") {
		if !isLabel(label) {
			return Domain{}, fmt.Errorf("%q is %w", s, ErrDomain)
		}
	}
	return Domain{host: host, port: port}, nil
}

// IsZero tells whether there is no domain.
func (d Domain) IsZero() bool { return d.host == "" }

// String is the domain as it is configured.
func (d Domain) String() string { return d.host + d.port }

// Isolates tells whether browsers take each host below the domain for a site of its own: whether
// the domain is a public suffix (https://publicsuffix.org), as localhost is. Below another domain
// a page can set cookies with Domain=, which its siblings then receive.
func (d Domain) Isolates() bool {
	suffix, _ := publicsuffix.PublicSuffix("x." + d.host)
	return suffix == d.host
}

// Host is the host name of an instance, or of a component of it, at the port that its Template names
// or at another, with the domain's public port if that is not 443. It is what a link is sealed for,
// and with "https://" in front the preview's origin. Its first label is one of
//
//	<namespace>   <component>--<namespace>   <port>-<namespace>   <component>--<port>-<namespace>
func (d Domain) Host(namespace, component, port string) (string, error) {
	label := namespace
	if port != "" {
		if !isPort(port) {
			return "", ErrPort
		}
		label = port + "-" + label
	}
	if component != "" {
		if !isComponent(component) {
			return "", ErrComponent
		}
		label = component + separator + label
	}
	if len(label) > maxLabelLength {
		return "", ErrPort // which alone can make it longer than MaxComponentLength allows
	}
	return label + "." + d.host + d.port, nil
}

// Name is what a preview's host name says.
type Name struct {
	// Namespace is that of a placement. It is what the browser asks for and proves nothing.
	Namespace string
	// Component is empty for the instance itself.
	Component string
	// Port is the number of a port of its pod; empty for the one that the Template names.
	Port string
	// Host is the one way to write the host name, as Domain.Host does.
	Host string
}

// Match reads the Host of a request. below tells that the host lies below the domain, so that the
// request is none of anybody else's; valid that it is the host name of a preview. The domain's own
// name is not below it, so that data plane and previews can share localhost.
func (d Domain) Match(host string) (name Name, below, valid bool) {
	if d.IsZero() {
		return Name{}, false, false
	}
	host, portValid := withoutPort(host)
	// A trailing dot names the same host, but for the browser it is another origin.
	bare := strings.ToLower(strings.TrimRight(host, "."))
	label, ok := strings.CutSuffix(bare, "."+d.host)
	if !ok {
		return Name{}, false, false
	}
	if !portValid || len(bare) != len(host) {
		return Name{}, true, false
	}
	if len(label) < namespaceLength {
		return Name{}, true, false
	}
	name.Namespace = label[len(label)-namespaceLength:]
	if !name.readPrefix(label[:len(label)-namespaceLength]) {
		return Name{}, true, false
	}
	if !placement.IsNamespace(name.Namespace) {
		return Name{}, true, false
	}
	name.Host = label + "." + d.host + d.port
	return name, true, true
}

// readPrefix reads what a label has before the namespace: nothing, or one of the forms of Host. They
// cannot be taken for each other: a component ends with two hyphens, a port with one.
func (n *Name) readPrefix(prefix string) bool {
	if before, ok := strings.CutSuffix(prefix, "-"); ok && !strings.HasSuffix(prefix, separator) {
		digits := len(before)
		for digits > 0 && '0' <= before[digits-1] && before[digits-1] <= '9' {
			digits--
		}
		n.Port, prefix = before[digits:], before[:digits]
		if !isPort(n.Port) {
			return false
		}
	}
	if prefix == "" {
		return true
	}
	component, ok := strings.CutSuffix(prefix, separator)
	n.Component = component
	return ok && isComponent(component)
}

// isPort tells whether s is the number of a port, written in the one way.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// withoutPort cuts the port from a Host header's value. Which port it is does not matter: a
// request may have come through something that listens on another.
func withoutPort(host string) (name string, valid bool) {
	name, port, found := strings.Cut(host, ":")
	if !found {
		return host, true
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return name, err == nil || port == ""
}

func isComponent(s string) bool {
	return len(s) <= MaxComponentLength && isLabel(s) && !strings.HasPrefix(s+separator, punycode)
}

// isLabel tells whether s is a DNS label (RFC 1123) in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
