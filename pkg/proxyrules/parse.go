// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"

	"github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

const (
	// MaxPorts is how many ports a document has at most.
	MaxPorts = 32
	// maxBackends and maxWeight are those of a SandboxRoute.
	maxBackends = 8
	maxWeight   = 1_000_000
	// maxAddress is the length of the longest address: a DNS name, a colon and a port.
	maxAddress = 253 + 1 + 5
)

// Parse reads the document of a Service and compiles its rules. The document is refused as a whole: a rule that is left out
// would have its requests answered by the baseline, and one of which a part is left out would lead more requests than it
// says. So a field that this version does not know is an error as well.
func Parse(document []byte, service string) (*intercept.Config, *Table, error) {
	if len(document) > intercept.MaxBytes {
		return nil, nil, fmt.Errorf("has %d bytes, more than %d", len(document), intercept.MaxBytes)
	}
	config := &intercept.Config{}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(config); err != nil {
		return nil, nil, fmt.Errorf("is not a document of this version: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("has something behind its end")
	}
	if config.Service != service {
		return nil, nil, fmt.Errorf("service: %q is not %q", config.Service, service)
	}
	if err := checkPorts(config.Ports); err != nil {
		return nil, nil, err
	}
	table, err := compile(config.Rules)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(document)
	table.Hash = hex.EncodeToString(sum[:])
	return config, table, nil
}

func checkPorts(ports []intercept.Port) error {
	if len(ports) == 0 || len(ports) > MaxPorts {
		return fmt.Errorf("ports: must be from 1 to %d", MaxPorts)
	}
	seen := map[int32]bool{}
	for i, p := range ports {
		if p.Listen < 1 || p.Listen > 65535 {
			return fmt.Errorf("ports[%d].listen: %d is not a port", i, p.Listen)
		}
		if seen[p.Listen] {
			return fmt.Errorf("ports[%d].listen: %d is there twice", i, p.Listen)
		}
		seen[p.Listen] = true
		if err := checkAddress(p.Baseline); err != nil {
			return fmt.Errorf("ports[%d].baseline: %w", i, err)
		}
		switch p.Protocol {
		case intercept.HTTP, intercept.TCP, intercept.Detect:
		default:
			return fmt.Errorf("ports[%d].protocol: %q is not a protocol; use HTTP, TCP or Detect", i, p.Protocol)
		}
	}
	return nil
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || len(address) > maxAddress || !isHost(host) {
		return fmt.Errorf("%q is not host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q is not host:port: its port is not a number from 1 to 65535", address)
	}
	return nil
}

// isHost reports whether a text has only what addresses and DNS names have.
func isHost(host string) bool {
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == ':':
		default:
			return false
		}
	}
	return host != ""
}

func compile(from []intercept.Rule) (*Table, error) {
	if len(from) > intercept.MaxRules {
		return nil, fmt.Errorf("rules: has %d, more than %d", len(from), intercept.MaxRules)
	}
	t := &Table{Rules: len(from), rules: make([]rule, len(from)), addresses: map[string]struct{}{}, led: map[lead]struct{}{}}
	selectors := map[string]int{}
	for i := range from {
		field := fmt.Sprintf("rules[%d]", i)
		compiled, err := compileRule(field, &from[i])
		if err != nil {
			return nil, err
		}
		t.rules[i] = compiled
		for _, b := range compiled.backends {
			t.addresses[b.Address] = struct{}{}
			t.led[lead{from[i].ID, b.Address}] = struct{}{}
		}
		at, ok := selectors[from[i].Header]
		if !ok {
			at = len(t.selectors)
			selectors[from[i].Header] = at
			t.selectors = append(t.selectors, selector{
				name:      textproto.CanonicalMIMEHeaderKey(from[i].Header),
				isBaggage: from[i].Header == sandbarv1alpha1.DefaultRoutingHeader,
				groups:    map[string]int{},
			})
		}
		t.selectors[at].add(from[i].ID, i)
	}
	return t, nil
}

func (s *selector) add(id string, number int) {
	group, ok := s.groups[id]
	if !ok {
		group = len(s.byGroup)
		s.groups[id] = group
		s.byGroup = append(s.byGroup, nil)
	}
	s.byGroup[group] = append(s.byGroup[group], number)
}

func compileRule(field string, from *intercept.Rule) (rule, error) {
	// The attack: an ID such as the empty one, in a header that all requests have, takes the requests of all.
	if !clone.IsID(from.ID) {
		return rule{}, fmt.Errorf("%s.id: %q is not the ID of a sandbox", field, from.ID)
	}
	if err := route.CheckSelectorHeader(from.Header); err != nil {
		return rule{}, fmt.Errorf("%s.header: %w", field, err)
	}
	for i := range len(from.Header) {
		if c := from.Header[i]; 'A' <= c && c <= 'Z' {
			return rule{}, fmt.Errorf("%s.header: %q is not in lower case", field, from.Header)
		}
	}
	m, err := compileMatch(field+".match", &from.Match, from.Header)
	if err != nil {
		return rule{}, err
	}
	r := rule{match: m}
	if len(from.Backends) == 0 || len(from.Backends) > maxBackends {
		return rule{}, fmt.Errorf("%s.backends: must be from 1 to %d", field, maxBackends)
	}
	for i, b := range from.Backends {
		if err := checkAddress(b.Address); err != nil {
			return rule{}, fmt.Errorf("%s.backends[%d].address: %w", field, i, err)
		}
		if b.Weight < 0 || b.Weight > maxWeight {
			return rule{}, fmt.Errorf("%s.backends[%d].weight: %d is not from 0 to %d", field, i, b.Weight, maxWeight)
		}
		r.total += int64(b.Weight)
		r.backends = append(r.backends, Backend{Address: b.Address, Sandbox: from.ID, before: r.total})
	}
	if r.total == 0 {
		return rule{}, fmt.Errorf("%s.backends: have no weight above 0", field)
	}
	return r, nil
}

// Check refuses a rule that would have a whole document refused. The attack: a tenant's rule with an expression that is too large keeps
// every other tenant's rules of the Service from being read.
func Check(rule *intercept.Rule) error {
	_, err := compileRule("it", rule)
	return err
}
