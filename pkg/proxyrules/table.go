// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxyrules

import (
	"math/rand/v2"
	"net/http"

	"github.com/sandbar-dev/sandbar/apis/intercept"
)

// Backend is where the requests of a rule go.
type Backend struct {
	// Address is host:port.
	Address string
	// Sandbox is the ID of the sandbox whose rule it is.
	Sandbox string
	// before is the sum of the weights of the backends before it, and of its own.
	before int64
}

// rule is one of the document.
type rule struct {
	match    match
	backends []Backend
	total    int64
}

// Table picks backends. It does not change.
type Table struct {
	// Hash names the document, Rules is how many rules it has.
	Hash  string
	Rules int

	rules []rule
	// selectors are the headers that carry IDs, each once.
	selectors []selector
	addresses map[string]struct{}
	led       map[lead]struct{}
}

// lead is that a rule of a sandbox leads to an address.
type lead struct{ sandbox, address string }

// selector is a header that carries IDs.
type selector struct {
	// name is canonical.
	name      string
	isBaggage bool
	// groups has the number of the group of an ID, and byGroup the numbers of its rules, which ascend.
	groups  map[string]int
	byGroup [][]int
}

// Leads reports whether a rule leads requests to an address.
func (t *Table) Leads(address string) bool {
	_, ok := t.addresses[address]
	return ok
}

// LeadsSandbox reports whether a rule of a sandbox, by its ID, leads requests to an address.
func (t *Table) LeadsSandbox(id, address string) bool {
	_, ok := t.led[lead{id, address}]
	return ok
}

// Pick returns the backend of the first rule, in the order of the document, that a request meets; nil means the baseline.
// The one error is ErrTooCostly. How many sandboxes there are makes no difference to what it costs.
func (t *Table) Pick(r *http.Request) (*Backend, error) {
	if len(t.rules) == 0 {
		return nil, nil //nolint:nilnil // the baseline
	}
	s := search{table: t, request: r, best: len(t.rules), budget: budget{MaxSteps}}
	for i := range t.selectors {
		sel := &t.selectors[i]
		if lines := r.Header[sel.name]; len(lines) > 0 {
			if err := s.among(sel, lines); err != nil {
				return nil, err
			}
		}
	}
	if s.best == len(t.rules) {
		return nil, nil //nolint:nilnil // the baseline
	}
	return t.rules[s.best].pick(), nil
}

// search is the look for the first rule of one request.
type search struct {
	table   *Table
	request *http.Request
	target  target
	budget  budget
	// best is the number of the first rule found so far, or that of all rules.
	best int
}

// among looks at the rules of the IDs in the lines of a header, at those of each ID once.
//
// The attack: a header of 64 KiB with one ID thousands of times, each of which has the rules compared again.
func (s *search) among(sel *selector, lines []string) (err error) {
	var looked [intercept.MaxRules / 64]uint64
	look := func(id string) bool {
		group, ok := sel.groups[id]
		if !ok || looked[group/64]&(1<<(group%64)) != 0 {
			return true
		}
		looked[group/64] |= 1 << (group % 64)
		err = s.first(sel.byGroup[group])
		return err == nil
	}
	if sel.isBaggage {
		eachID(lines, look)
		return err
	}
	for _, line := range lines {
		if !look(line) {
			break
		}
	}
	return err
}

// first finds the first of some rules that the request meets and that comes before the best so far.
func (s *search) first(numbers []int) error {
	if s.target.path == "" {
		s.target = targetOf(s.request)
	}
	for _, number := range numbers {
		if number >= s.best {
			return nil
		}
		ok, err := s.table.rules[number].match.matches(s.request, &s.target, &s.budget)
		if err != nil {
			return err
		}
		if ok {
			s.best = number
			return nil
		}
	}
	return nil
}

// pick chooses by chance, in proportion to the weights.
func (r *rule) pick() *Backend {
	if len(r.backends) == 1 {
		return &r.backends[0]
	}
	at := rand.Int64N(r.total) //nolint:gosec // a share of traffic, which nobody gains by guessing
	for i := range r.backends {
		if at < r.backends[i].before {
			return &r.backends[i]
		}
	}
	return &r.backends[len(r.backends)-1]
}
