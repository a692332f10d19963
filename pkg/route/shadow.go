// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Extent is how many of the requests of a rule another route takes.
type Extent int

// How many requests are taken.
const (
	// Perhaps: what decides is not in the routes. It is the Gateway's own order of regular expressions, the hostname of its
	// listener, for a route that names none, or that its controller does not keep to the order of the Gateway API.
	Perhaps Extent = iota + 1
	// Some: requests that meet more conditions than the rule's.
	Some
	// All: each request that the rule matches.
	All
)

// Shadow is a rule of which another route takes requests.
type Shadow struct {
	// Rule is the name of the rule.
	Rule string
	// By is the other route, as namespace/name.
	By string
	// Extent is what it takes of the rule at most. Each of several hostnames and matches of a rule has its own: All means
	// each request of the rule.
	Extent Extent
	// Message says which requests it takes, and what to do.
	Message string
}

// ErrIncomplete comes with the shadows that were found before there was too much to compare.
var ErrIncomplete = errors.New("the rules have too many matches and hostnames to be compared with all other routes: not all that take requests of them are known; name fewer")

// maxComparisons is how often two matches are compared at most, some hundred milliseconds. The attack: 512 matches for 16
// hostnames, at a Gateway with as many routes, which would keep the controller busy for minutes.
const maxComparisons = 500_000

// Shadowed reports for the rules of a SandboxRoute which other HTTPRoutes take requests of them, by the precedence of the
// Gateway API: the more specific hostname, then an exact path, the longer path, a method, more headers, more parameters of
// the query, the older route, the route whose namespace/name comes first. There is one entry for each rule and route, in the order
// of the rules, then of namespace/name. A request that another route would take of one rule, and that another rule of ours
// takes back, is not told: adding a rule is a remedy.
//
// ours are the HTTPRoutes of Render with the times of creation that they have on the runtime cluster; one without a time is
// not created yet, and younger than all. others are HTTPRoutes of the cluster; ours among them count for nothing. Only routes
// that meet are compared.
//
// Listeners are not read, nor whether a Gateway has accepted a route. A rule of another sandbox takes nothing: a request
// that carries two IDs is its sender's affair. The error is ErrIncomplete, or of one of ours that cannot be read.
func Shadowed(spec *sandbarv1alpha1.SandboxRouteSpec, ours []*unstructured.Unstructured, others []*Parsed) ([]Shadow, error) {
	var mine, theirs []*Parsed
	for _, u := range ours {
		m, err := Parse(u)
		if err != nil {
			return nil, err
		}
		mine = append(mine, m)
	}
	for _, t := range others {
		isOurs := slices.ContainsFunc(mine, func(m *Parsed) bool { return m.name == t.name })
		if !isOurs && slices.ContainsFunc(mine, t.Meets) {
			theirs = append(theirs, t)
		}
	}
	slices.SortFunc(theirs, func(a, b *Parsed) int { return strings.Compare(a.name, b.name) })
	c := &comparer{left: maxComparisons}
	for _, m := range mine {
		for i := range m.spec.Rules {
			if c.rules == len(spec.Rules) {
				return nil, fmt.Errorf("the HTTPRoutes have more rules than the %d of the SandboxRoute", len(spec.Rules))
			}
			c.add(m, &m.spec.Rules[i])
		}
	}
	var shadows []Shadow
	for rule := range c.rules {
		for _, t := range theirs {
			if shadow, ok := c.shadowOf(rule, t); ok {
				shadow.Rule = spec.Rules[rule].Name
				shadows = append(shadows, shadow)
			}
		}
	}
	if c.left <= 0 {
		return shadows, ErrIncomplete
	}
	return shadows, nil
}

// AllShadowed reports whether each rule of a SandboxRoute is shadowed altogether, by one route or another.
func AllShadowed(spec *sandbarv1alpha1.SandboxRouteSpec, shadows []Shadow) bool {
	for i := range spec.Rules {
		if !slices.ContainsFunc(shadows, func(s Shadow) bool { return s.Rule == spec.Rules[i].Name && s.Extent == All }) {
			return false
		}
	}
	return true
}

// Parsed is an HTTPRoute as far as it is compared: which requests it takes.
type Parsed struct {
	name      string // namespace/name
	namespace string
	created   time.Time // zero for one that is not created yet
	spec      *httpRouteSpec
}

// Parse reads an HTTPRoute. What it returns shares nothing with the object.
func Parse(u *unstructured.Unstructured) (*Parsed, error) {
	spec, err := parse(u)
	if err != nil {
		return nil, err
	}
	for i := range spec.Rules {
		spec.Rules[i] = httpRule{Matches: normalAll(spec.Rules[i].Matches)}
	}
	return &Parsed{name: u.GetNamespace() + "/" + u.GetName(), namespace: u.GetNamespace(), created: u.GetCreationTimestamp().Time, spec: spec}, nil
}

// Meets reports whether there may be requests that both routes are about: they have a Gateway, a listener as far as they name
// one, and a hostname in common.
func (p *Parsed) Meets(other *Parsed) bool {
	return shareParent(p, other) && slices.ContainsFunc(namesOrAll(p.spec.Hostnames), func(a string) bool {
		return slices.ContainsFunc(namesOrAll(other.spec.Hostnames), func(b string) bool { return intersect(a, b) })
	})
}

// normalAll is what the matches of a rule mean: without one, all requests.
func normalAll(matches []sandbarv1alpha1.SandboxRouteMatch) []sandbarv1alpha1.SandboxRouteMatch {
	if len(matches) == 0 {
		matches = []sandbarv1alpha1.SandboxRouteMatch{{}}
	}
	all := make([]sandbarv1alpha1.SandboxRouteMatch, 0, len(matches))
	for i := range matches {
		all = append(all, Normal(&matches[i]))
	}
	return all
}

// own is a match of ours for one hostname.
type own struct {
	route    *Parsed
	rule     int
	hostname string
	match    *sandbarv1alpha1.SandboxRouteMatch
}

// comparer compares all that is ours with other routes.
type comparer struct {
	ours  []own
	rules int
	// left is how many comparisons may follow.
	left int
}

// add adds the next rule of ours.
func (c *comparer) add(route *Parsed, rule *httpRule) {
	for _, hostname := range namesOrAll(route.spec.Hostnames) {
		for i := range rule.Matches {
			c.ours = append(c.ours, own{route, c.rules, hostname, &rule.Matches[i]})
		}
	}
	c.rules++
}

// shadowOf is what another route takes of a rule. Of its rules and matches the one that takes most is told.
func (c *comparer) shadowOf(rule int, other *Parsed) (Shadow, bool) {
	var worst *taking
	all := true // each hostname and match is taken altogether
	for _, o := range c.ours {
		if o.rule != rule || !shareParent(o.route, other) {
			continue
		}
		t := c.takes(o, other)
		all = all && t != nil && t.extent == All
		if t != nil && (worst == nil || t.extent > worst.extent) {
			worst = t
		}
	}
	if worst == nil {
		return Shadow{}, false
	}
	extent := worst.extent
	if extent == All && !all {
		extent = Some
	}
	return Shadow{By: other.name, Extent: extent, Message: bounded(worst.message(other.name))}, true
}

// takes is the most that another route takes of the requests of a match of ours.
func (c *comparer) takes(o own, other *Parsed) *taking {
	var worst *taking
	for _, theirName := range namesOrAll(other.spec.Hostnames) {
		if !intersect(o.hostname, theirName) {
			continue
		}
		for i := range other.spec.Rules {
			for j := range other.spec.Rules[i].Matches {
				if t := c.judge(o, theirName, &other.spec.Rules[i].Matches[j], other); t != nil && (worst == nil || t.extent > worst.extent) && !c.takenBack(t, other) {
					worst = t
				}
			}
		}
	}
	return worst
}

// judge compares a match of ours with one of another route. After too many comparisons it finds nothing.
func (c *comparer) judge(o own, theirName string, theirs *sandbarv1alpha1.SandboxRouteMatch, other *Parsed) *taking {
	if c.left--; c.left < 0 {
		return nil
	}
	return (&pair{ours: o.match, theirs: theirs, ourName: o.hostname, theirName: theirName, older: other.olderThan(o.route)}).judge()
}

// takenBack reports whether a match of ours takes all of the requests that another match would take, and comes before it.
func (c *comparer) takenBack(t *taking, other *Parsed) bool {
	for _, o := range c.ours {
		if c.left <= 0 {
			return false
		}
		if isSame := o.match == t.ours && o.hostname == t.ourName; !isSame && t.isWithin(o.hostname, o.match) && c.judge(o, t.theirName, t.theirs, other) == nil {
			return true
		}
	}
	return false
}

// olderThan is the Gateway API's last word between two routes.
func (p *Parsed) olderThan(other *Parsed) bool {
	switch {
	case p.created.Equal(other.created):
		return p.name < other.name
	case p.created.IsZero():
		return false
	case other.created.IsZero():
		return true
	}
	return p.created.Before(other.created)
}

func namesOrAll(hostnames []string) []string {
	if len(hostnames) == 0 {
		return []string{""}
	}
	return hostnames
}

// shareParent reports whether two routes may have a listener in common.
func shareParent(a, b *Parsed) bool {
	for _, p := range a.spec.ParentRefs {
		for _, q := range b.spec.ParentRefs {
			if p.isGateway() && q.isGateway() && p.name(a.namespace) == q.name(b.namespace) &&
				(p.SectionName == q.SectionName || p.SectionName == "" || q.SectionName == "") &&
				(p.Port == q.Port || p.Port == 0 || q.Port == 0) {
				return true
			}
		}
	}
	return false
}

func (p parentRef) isGateway() bool {
	return (p.Group == GatewayGroup || p.Group == "" && p.Kind == "") && (p.Kind == kindGateway || p.Kind == "")
}

func (p parentRef) name(namespace string) string {
	if p.Namespace != "" {
		namespace = p.Namespace
	}
	return namespace + "/" + p.Name
}
