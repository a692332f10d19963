// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
)

// Document is what the proxies of a Service do.
type Document struct {
	// Text is the document, as it is written.
	Text string
	// Applied are the intents that it has, by route, each by its Hash.
	Applied map[types.UID]string
	// Refused are those for which it has no room, with the reason.
	Refused map[types.UID]string
}

// documentOf makes the document of a Service, as its owner has it, and of the one that has its original pods. had are the intents that
// the proxies have now, by route, each by its Hash; nil while the Service has its own pods.
//
// The attack: a tenant's route that grows, or many of them, take the room of another tenant's. So the routes of a workspace have
// a share, and room goes first to those that had it and have not changed, then to those that had it and have, then by age.
func documentOf(s, behind *corev1.Service, intents []*Intent, had map[types.UID]string) Document {
	doc := Document{Applied: map[types.UID]string{}, Refused: map[types.UID]string{}}
	config := wire.Config{Service: s.Name, Ports: portsOf(s, behind).wire}
	room := room{service: s.Name, bytes: len(encode(config)), of: map[string]*used{}}
	for _, intent := range byRight(intents, had) {
		if why := room.take(intent); why != "" {
			doc.Refused[intent.UID] = why
			continue
		}
		doc.Applied[intent.UID] = intent.Hash()
	}
	for _, intent := range intents { // of two rules that are equally specific the older route's comes first
		if doc.Applied[intent.UID] != "" {
			config.Rules = append(config.Rules, intent.Rules...)
		}
	}
	sortRules(config.Rules)
	doc.Text = encode(config)
	return doc
}

// byRight are the intents that ask for something, in the order in which they have a right to room. documentOf is quiet
// with it: an intent that had no room behind others has none either once all of these are among those that the proxies have.
func byRight(intents []*Intent, had map[types.UID]string) []*Intent {
	rank := func(i *Intent) int {
		switch hash := had[i.UID]; hash {
		case "":
			return 2
		case i.Hash():
			return 0
		}
		return 1
	}
	asking := slices.DeleteFunc(slices.Clone(intents), func(i *Intent) bool { return i.Leaving })
	slices.SortStableFunc(asking, func(a, b *Intent) int { return cmp.Compare(rank(a), rank(b)) })
	return asking
}

// room is what is left of that of a document.
type room struct {
	service      string
	rules, bytes int
	// of are the shares of workspaces, by logical cluster.
	of map[string]*used
}

type used struct{ rules, bytes int }

// take gives an intent room, or says why there is none.
func (r *room) take(intent *Intent) string {
	tenant := r.of[intent.Route.Cluster]
	if tenant == nil {
		tenant = &used{}
		r.of[intent.Route.Cluster] = tenant
	}
	rules, bytes := len(intent.Rules), len(encode(intent.Rules))
	err := intent.checkRules()
	switch {
	case err != nil: // somebody has written into the ConfigMap, or the bounds of a former version were wider
		return fmt.Sprintf("the proxies of Service %s take none of the rules of this route: %v", r.service, err)
	case tenant.rules+rules > MaxTenantRules:
		return fmt.Sprintf("the routes of this workspace have more than the %d rules that it may have for Service %s: have fewer matches, or delete a route", MaxTenantRules, r.service)
	case tenant.bytes+bytes > MaxTenantBytes:
		return fmt.Sprintf("the rules of the routes of this workspace for Service %s are more than the %d bytes that it may have there: have shorter values, or delete a route", r.service, MaxTenantBytes)
	case r.rules+rules > wire.MaxRules:
		return fmt.Sprintf("the routes of Service %s have more than the %d rules that its proxies take: have fewer matches, or delete a route", r.service, wire.MaxRules)
	case r.bytes+bytes > wire.MaxBytes:
		return fmt.Sprintf("the rules of all routes of Service %s are more than the %d bytes that its proxies take: have shorter values, or delete a route", r.service, wire.MaxBytes)
	}
	tenant.rules, tenant.bytes = tenant.rules+rules, tenant.bytes+bytes
	r.rules, r.bytes = r.rules+rules, r.bytes+bytes
	return ""
}

// draining is a document whose proxies lead nothing to copies, and have their clients go. ok is false for one that has
// nothing to say, or says so already.
func draining(text string) (drained string, ok bool) {
	config := wire.Config{}
	if json.Unmarshal([]byte(text), &config) != nil || config.Service == "" || config.Draining && len(config.Rules) == 0 {
		return "", false
	}
	config.Rules, config.Draining = nil, true
	return encode(config), true
}
