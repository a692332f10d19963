// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/json"
	"fmt"

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

// documentOf makes the document of a Service, as its owner has it, and of the one that has its original pods. Where the rules of all routes have no room, those of the oldest
// routes are in it: a new route takes nothing away from another one.
func documentOf(s, behind *corev1.Service, intents []*Intent) Document {
	doc := Document{Applied: map[types.UID]string{}, Refused: map[types.UID]string{}}
	config := wire.Config{Service: s.Name, Ports: portsOf(s, behind).wire}
	bytes := len(encode(config))
	for _, intent := range intents {
		if intent.Leaving {
			continue
		}
		more := len(encode(intent.Rules))
		err := intent.checkRules()
		switch {
		case err != nil: // somebody has written into the ConfigMap, or the bounds of a former version were wider
			doc.Refused[intent.UID] = fmt.Sprintf("the proxies of Service %s take none of the rules of this route: %v", s.Name, err)
		case len(config.Rules)+len(intent.Rules) > wire.MaxRules:
			doc.Refused[intent.UID] = fmt.Sprintf("the routes of Service %s have more than the %d rules that its proxies take: have fewer matches, or delete a route", s.Name, wire.MaxRules)
		case bytes+more > wire.MaxBytes:
			doc.Refused[intent.UID] = fmt.Sprintf("the rules of all routes of Service %s are more than the %d bytes that its proxies take: have shorter values, or delete a route", s.Name, wire.MaxBytes)
		default:
			bytes += more
			config.Rules = append(config.Rules, intent.Rules...)
			doc.Applied[intent.UID] = intent.Hash()
		}
	}
	sortRules(config.Rules)
	doc.Text = encode(config)
	return doc
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
