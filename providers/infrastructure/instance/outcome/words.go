// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"regexp"
	"strings"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// This file decides which words of the runtime cluster reach a tenant: those of the API server about what the tenant
// wrote, and nothing of kro, of the provider's rights or of the names on the runtime cluster. The log has all of it.

// refusals are how the API server and its webhooks begin their reasons.
var refusals = []string{" is forbidden: ", " is invalid: ", "denied the request: "}

// refusedPart finds the API server's reason for a refusal in a message that quotes it, kro's above all. kro puts
// its own words before a reason, and others' after it in lines of their own.
func refusedPart(message string) (why string, found bool) {
	for line := range strings.Lines(message) {
		for _, words := range refusals {
			if _, why, found := strings.Cut(line, words); found && !IsOwnRight(why) {
				return strings.TrimSpace(why), true
			}
		}
	}
	return "", false
}

// IsOwnRight reports whether the API server refuses something to kro or to the provider, by the name of a service
// account: that is for the operator to correct, and no tenant's business.
func IsOwnRight(why string) bool { return strings.HasPrefix(why, `User "`) }

// quotaPart is what the API server's quota plugin says in a message that quotes it.
func quotaPart(message string) string {
	for line := range strings.Lines(message) {
		if at := strings.Index(line, quotaWords); at >= 0 {
			return strings.TrimSpace(line[at:])
		}
	}
	return message
}

var (
	// onRuntime is the name of a placement's namespace, with the object in it that is meant.
	onRuntime = regexp.MustCompile(`"?\bsb-[a-z2-7]{26}\b"?(/[a-z0-9.-]+)?`)
	// account is the name of a service account of the runtime cluster.
	account = regexp.MustCompile(`"?system:serviceaccount:[a-z0-9:.-]+"?`)
)

// toTenant is a text as a tenant may read it. It is the last step of each condition and event: with the name of a
// namespace of the runtime cluster somebody who gets a right there by mistake would find the instance.
func toTenant(text string) string {
	text = onRuntime.ReplaceAllString(revision.Plain(text), "the instance's namespace")
	return account.ReplaceAllString(text, "the provider")
}

// WhyRefused is the API server's reason without the name of the object that it refused, which is the
// provider's and says nothing to a tenant.
func WhyRefused(err error) string {
	for _, words := range []string{" is forbidden: ", " is invalid: "} {
		if _, why, found := strings.Cut(err.Error(), words); found {
			return why
		}
	}
	return err.Error()
}
