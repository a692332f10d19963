// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/proxyrules"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

const (
	// MaxIntentRules is how many rules one SandboxRoute has at most for one Service: each match of a rule is one.
	MaxIntentRules = 128
	// MaxIntentBytes is how long these are at most: those of all routes of a namespace are in one ConfigMap.
	MaxIntentBytes = 32 << 10
	// MaxRoutesBytes is how much all routes of a namespace say at most, with the results. What a ConfigMap has room for in addition
	// (1 MiB in all) is for the State of Services: a tenant's routes must not keep the controllers from noting what they do.
	MaxRoutesBytes = 768 << 10
	// MaxShareBytes is how much of that the routes of one workspace say at most: a quarter.
	MaxShareBytes = 192 << 10
	// MaxTenantRules is how many rules of the routes of one workspace are in the document of a Service at most: a quarter of what the
	// proxies take, which is room for one route that is as large as can be.
	MaxTenantRules = 128
	// MaxTenantBytes is how long these rules are at most.
	MaxTenantBytes = 32 << 10
)

// RouteKey is where a SandboxRoute is.
type RouteKey struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Intent is what one SandboxRoute asks of the proxies of one Service.
type Intent struct {
	Route RouteKey  `json:"route"`
	UID   types.UID `json:"uid"`
	// Created is when the SandboxRoute was: of two rules that are equally specific the older one counts.
	Created metav1.Time `json:"created"`
	// Placement is the namespace of the copies that the rules lead to. An intent whose placement is gone asks for nothing: a route
	// that went with its workspace has told nobody.
	Placement string      `json:"placement,omitempty"`
	Rules     []wire.Rule `json:"rules,omitempty"`
	// Leaving asks for nothing any more. The controllers remove such an intent once no proxy has its rules, and the Service its
	// own pods if it was the last one.
	Leaving bool `json:"leaving,omitempty"`
}

// IntentKey is the key of the intent of a SandboxRoute for a Service in RoutesConfigMap, StateKey that of the Service's State.
func IntentKey(service string, uid types.UID) string { return service + "." + string(uid) }

// StateKey is the key of the State of a Service in RoutesConfigMap. A UID is never called that.
func StateKey(service string) string { return service + stateSuffix }

const stateSuffix = ".state"

// Input is a SandboxRoute with provider proxy.
type Input struct {
	Key     RouteKey
	UID     types.UID
	Created metav1.Time
	Spec    *sandbarv1alpha1.SandboxRouteSpec
	// SandboxID is that of the group, and Placement the namespace of its copies.
	SandboxID, Placement string
	// Targets are the Services that the targets of the rules stand for, by the rule's name, and Backends those that the backends
	// of each rule stand for, in the order of its backends.
	Targets  map[string]types.NamespacedName
	Backends map[string][]route.Backend
}

// Intents are what a SandboxRoute asks for, by Service. An error of a spec that is too large is a *route.RefusedError.
func Intents(in Input) (map[types.NamespacedName]*Intent, error) {
	// The attack: an ID from a status or an annotation that another has written takes the requests of other sandboxes.
	if !clone.IsID(in.SandboxID) {
		return nil, fmt.Errorf("%q is not the ID of a sandbox", in.SandboxID)
	}
	all := map[types.NamespacedName]*Intent{}
	for i := range in.Spec.Rules {
		rule := &in.Spec.Rules[i]
		target, backends := in.Targets[rule.Name], in.Backends[rule.Name]
		if target.Name == "" || len(backends) != len(rule.Backends) {
			return nil, fmt.Errorf("rule %s has neither a Service nor a backend for each of its %d", rule.Name, len(rule.Backends))
		}
		intent := all[target]
		if intent == nil {
			intent = &Intent{Route: in.Key, UID: in.UID, Created: in.Created, Placement: in.Placement}
			all[target] = intent
		}
		intent.Rules = append(intent.Rules, rulesOf(in, rule, backends)...)
	}
	for target, intent := range all {
		if err := intent.check(target); err != nil {
			return nil, err
		}
		if err := intent.checkRules(); err != nil {
			return nil, invalid("spec.rules: a proxy cannot take one for Service %s: %v", target.Name, err)
		}
	}
	return all, nil
}

// rulesOf are those of one rule of a SandboxRoute: one for each match. It is the one place where rules of proxies are written: each has
// the ID.
func rulesOf(in Input, rule *sandbarv1alpha1.SandboxRouteRule, backends []route.Backend) []wire.Rule {
	matches := rule.Matches
	if len(matches) == 0 {
		matches = []sandbarv1alpha1.SandboxRouteMatch{{}}
	}
	led := make([]wire.Backend, 0, len(backends))
	for i, b := range backends {
		weight := int32(1)
		if rule.Backends[i].Weight != nil {
			weight = *rule.Backends[i].Weight
		}
		led = append(led, wire.Backend{Address: fmt.Sprintf("%s.%s.svc:%d", b.Name, b.Namespace, b.Port), Weight: weight})
	}
	rules := make([]wire.Rule, 0, len(matches))
	for i := range matches {
		rules = append(rules, wire.Rule{ID: in.SandboxID, Header: strings.ToLower(in.Spec.SelectorHeaderName), Match: route.Normal(&matches[i]), Backends: led})
	}
	return rules
}

func (i *Intent) check(target types.NamespacedName) error {
	if n := len(i.Rules); n > MaxIntentRules {
		return invalid("spec.rules: %d matches for Service %s are more than the %d that a SandboxRoute may have there; leave some out", n, target.Name, MaxIntentRules)
	}
	if n := len(i.Encode()); n > MaxIntentBytes {
		return invalid("spec.rules: what they say for Service %s is %d bytes, which are more than the %d that a SandboxRoute may have there; have shorter or fewer values", target.Name, n, MaxIntentBytes)
	}
	return nil
}

// checkRules refuses what the proxies would refuse: with it they would take none of the rules of other routes either.
func (i *Intent) checkRules() error {
	for n := range i.Rules {
		if err := proxyrules.Check(&i.Rules[n]); err != nil {
			return err //nolint:wrapcheck // it says what it is about
		}
	}
	return nil
}

// Encode is the intent as it is written.
func (i *Intent) Encode() string { return encode(i) }

// Hash tells an intent from another one of the same route.
func (i *Intent) Hash() string { return hashOf([]byte(i.Encode()))[:16] }

// Left is the intent of a route that asks for nothing any more.
func (i *Intent) Left() *Intent {
	return &Intent{Route: i.Route, UID: i.UID, Created: i.Created, Placement: i.Placement, Leaving: true}
}

// encode writes JSON, without the escapes that are for HTML.
func encode(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // types of this package are always written
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Sizes are how many bytes RoutesConfigMap has for its keys and their texts: of all, and of the routes of one workspace. The key of an
// intent that is about to be written is left out.
func Sizes(data map[string]string, but, cluster string) (all, share int) {
	for key, text := range data {
		if key == but {
			continue
		}
		all += len(key) + len(text)
		intent := Intent{}
		if strings.HasSuffix(key, stateSuffix) || json.Unmarshal([]byte(text), &intent) != nil {
			continue
		}
		if intent.Route.Cluster == cluster {
			share += len(key) + len(text)
		}
	}
	return all, share
}

// Routes is what RoutesConfigMap has for one Service.
type Routes struct {
	// Intents are those of all routes, the oldest first.
	Intents []*Intent
	State   State
}

// ReadRoutes reads what the data of RoutesConfigMap has, by the name of the Service. What cannot be read is left out, so that one
// entry which somebody has damaged stands in nobody's way: its route writes it again.
func ReadRoutes(data map[string]string) map[string]*Routes {
	all := map[string]*Routes{}
	of := func(service string) *Routes {
		if all[service] == nil {
			all[service] = &Routes{}
		}
		return all[service]
	}
	for key, text := range data {
		service, uid, ok := strings.Cut(key, ".")
		if !ok || service == "" {
			continue
		}
		if StateKey(service) == key {
			state := State{}
			if json.Unmarshal([]byte(text), &state) == nil {
				of(service).State = state
			}
			continue
		}
		intent := &Intent{}
		if json.Unmarshal([]byte(text), intent) == nil && string(intent.UID) == uid {
			of(service).Intents = append(of(service).Intents, intent)
		}
	}
	for _, r := range all {
		sortIntents(r.Intents)
	}
	return all
}
