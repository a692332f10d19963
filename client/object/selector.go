// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// MaxRequirements bounds the requirements of a label selector, so that one request cannot cost a server
	// more than ten comparisons for each object.
	MaxRequirements = 10
	// MaxSelectorBytes bounds the length of a selector: it travels in a URL, and proxies refuse long ones with
	// errors that do not name it.
	MaxSelectorBytes = 8 << 10
)

// SelectorError means that a selector cannot be sent.
type SelectorError struct {
	// Noun is "selector" or "field selector".
	Noun string
	// Selector is empty for one that is better not repeated: it is too long, or has control characters.
	Selector string
	Problem  string
}

// Error implements error.
func (e *SelectorError) Error() string {
	if e.Selector == "" {
		return fmt.Sprintf("the %s %s", e.Noun, e.Problem)
	}
	return fmt.Sprintf("the %s %q %s", e.Noun, e.Selector, e.Problem)
}

const labelNoun, fieldNoun = "selector", "field selector"

// withoutParentheses is a set-based requirement whose values stand alone.
var withoutParentheses = regexp.MustCompile(`(?:^|,)\s*([^\s,=!<>()]+)\s+(in|notin)\s+([^\s,()]+(?:\s*,\s*[^\s,=!<>()]+)*)\s*$`)

// ParseSelector reads a label selector, equality-based (env=prod, env!=prod, env, !env) or set-based
// (env in (prod, test)), and checks what the server would: an error is a [SelectorError]. An empty text selects all.
func ParseSelector(text string) (labels.Selector, error) {
	if problem := unfit(text); problem != "" {
		return nil, &SelectorError{Noun: labelNoun, Problem: problem}
	}
	selector, err := labels.Parse(text)
	if err != nil {
		if m := withoutParentheses.FindStringSubmatch(text); m != nil {
			return nil, &SelectorError{labelNoun, text, fmt.Sprintf("does not parse: %s needs parentheses: %s %s (%s)", m[2], m[1], m[2], m[3])}
		}
		return nil, &SelectorError{labelNoun, text, "does not parse: " + reasonOf(err)}
	}
	if requirements, _ := selector.Requirements(); len(requirements) > MaxRequirements {
		return nil, &SelectorError{Noun: labelNoun, Problem: fmt.Sprintf("has %d requirements; at most %d are allowed: write several values of one key as a set, such as env in (prod, test)", len(requirements), MaxRequirements)}
	}
	return selector, nil
}

// ParseFieldSelector reads a field selector, such as metadata.name=web: an error is a [SelectorError].
func ParseFieldSelector(text string) (fields.Selector, error) {
	if problem := unfit(text); problem != "" {
		return nil, &SelectorError{Noun: fieldNoun, Problem: problem}
	}
	selector, err := fields.ParseSelector(text)
	if err != nil {
		return nil, &SelectorError{fieldNoun, text, "does not parse: write FIELD=VALUE or FIELD!=VALUE, such as metadata.name=web"}
	}
	for _, r := range selector.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return nil, &SelectorError{fieldNoun, text, fmt.Sprintf("names the field %q; a workspace selects by metadata.name and metadata.namespace: use --selector with labels for others", r.Field)}
		}
	}
	return selector, nil
}

// unfit returns why a selector cannot be one at all, before it is parsed or printed.
func unfit(text string) string {
	if len(text) > MaxSelectorBytes {
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(text), MaxSelectorBytes)
	}
	for at, r := range text {
		if r < ' ' && r != '\t' || r == 0x7f {
			return fmt.Sprintf("has a control character (%q) at position %d", r, at+1)
		}
	}
	return ""
}

// reasonOf is an error of apimachinery's parser without the words that repeat what it is about.
func reasonOf(err error) string {
	text := err.Error()
	for _, prefix := range []string{"unable to parse requirement: ", "couldn't parse the selector string "} {
		text = strings.TrimPrefix(text, prefix)
	}
	text, _, _ = strings.Cut(text, "\n")
	return text
}
