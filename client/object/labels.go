// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	metav1validation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Pairs are labels or annotations that are set and taken away.
type Pairs struct {
	Set    map[string]string
	Remove []string
}

// Empty reports whether nothing is set and nothing taken away.
func (p Pairs) Empty() bool { return len(p.Set) == 0 && len(p.Remove) == 0 }

// PairError means that a label or an annotation is refused before it is sent.
type PairError struct{ Pair, Problem string }

// Error implements error.
func (e *PairError) Error() string { return fmt.Sprintf("%q: %s", e.Pair, e.Problem) }

// PairKind is what pairs are: Labels or Annotations.
type PairKind struct {
	// Noun is "label" or "annotation".
	Noun string
	// value returns what is wrong with a value.
	value func(string) string
}

// The two kinds of pairs that an object has in its metadata.
var (
	Labels      = PairKind{Noun: "label", value: labelValueProblem}
	Annotations = PairKind{Noun: "annotation", value: func(string) string { return "" }}
)

// Field is the name of the pairs in an object's metadata: labels or annotations.
func (k PairKind) Field() string { return k.Noun + "s" }

// Parse reads "key=value" and, where removable is set, "key-", which takes the key away. It checks all that the
// server would, so that nothing is sent of a call that cannot succeed: an error is a [PairError].
func (k PairKind) Parse(texts []string, removable bool) (Pairs, error) {
	pairs := Pairs{Set: map[string]string{}}
	for _, text := range texts {
		key, value, sets := strings.Cut(text, "=")
		if !sets {
			if !removable || !strings.HasSuffix(text, "-") {
				return Pairs{}, &PairError{text, k.form(removable)}
			}
			key = strings.TrimSuffix(text, "-")
		}
		if problem := keyProblem(key); problem != "" {
			return Pairs{}, &PairError{text, problem}
		}
		other, twice := pairs.Set[key]
		removed := slices.Contains(pairs.Remove, key)
		switch {
		case !sets && twice, sets && removed:
			return Pairs{}, &PairError{text, fmt.Sprintf("the %s %s is set and taken away in one call", k.Noun, key)}
		case !sets && !removed:
			pairs.Remove = append(pairs.Remove, key)
			continue
		case !sets:
			continue
		case twice && other != value:
			return Pairs{}, &PairError{text, fmt.Sprintf("the %s %s is given twice, with the values %q and %q", k.Noun, key, other, value)}
		}
		if problem := k.value(value); problem != "" {
			return Pairs{}, &PairError{text, problem}
		}
		pairs.Set[key] = value
	}
	if k.Noun == Annotations.Noun {
		return pairs, annotationSize(pairs.Set)
	}
	return pairs, nil
}

func (k PairKind) form(removable bool) string {
	if removable {
		return fmt.Sprintf("write KEY=VALUE to set the %s, or KEY- to take it away", k.Noun)
	}
	return fmt.Sprintf("write the %s as KEY=VALUE", k.Noun)
}

const characters = "letters, digits, '-', '_' and '.'"

// keyProblem returns what is wrong with a key, with the position that is wrong.
func keyProblem(key string) string {
	if len(validation.IsQualifiedName(key)) == 0 {
		return ""
	}
	prefix, name, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix {
		prefix, name = "", key
	}
	switch {
	case key == "":
		return "the key is empty"
	case hasPrefix && strings.Contains(name, "/"):
		return fmt.Sprintf("the key %q has more than one '/': a key is NAME or PREFIX/NAME, such as example.com/team", key)
	case hasPrefix && len(validation.IsDNS1123Subdomain(prefix)) > 0:
		return fmt.Sprintf("the prefix %q of the key is not a DNS name: a prefix has lower-case letters, digits, '-' and '.', and at most %d characters", prefix, validation.DNS1123SubdomainMaxLength)
	case name == "":
		return fmt.Sprintf("the key %q has nothing behind its '/'", key)
	}
	return "the key " + wordProblem(key, name, len(key)-len(name))
}

// labelValueProblem returns what is wrong with the value of a label.
func labelValueProblem(value string) string {
	if len(validation.IsValidLabelValue(value)) == 0 {
		return ""
	}
	return "the value " + wordProblem(value, value, 0)
}

// wordProblem says what is wrong with a word of a label, which begins at an offset of what it is quoted in.
func wordProblem(quoted, word string, offset int) string {
	if n := utf8.RuneCountInString(word); len(word) > validation.LabelValueMaxLength {
		return fmt.Sprintf("has %d characters; at most %d are allowed", n, validation.LabelValueMaxLength)
	}
	at := strings.IndexFunc(word, func(r rune) bool { return !isAlphanumeric(r) && r != '-' && r != '_' && r != '.' })
	if at >= 0 {
		r, _ := utf8.DecodeRuneInString(word[at:])
		return fmt.Sprintf("%q has %q at position %d: it may have %s", quoted, r, offset+at+1, characters)
	}
	if r := rune(word[0]); !isAlphanumeric(r) {
		return fmt.Sprintf("%q begins with %q: it has to begin and end with a letter or digit", quoted, r)
	}
	return fmt.Sprintf("%q ends with %q: it has to begin and end with a letter or digit", quoted, rune(word[len(word)-1]))
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// annotationSize refuses annotations that are too large together, as the server does.
func annotationSize(set map[string]string) error {
	total := 0
	for key, value := range set {
		total += len(key) + len(value)
	}
	if total > metav1validation.TotalAnnotationSizeLimitB {
		return &PairError{"annotations", fmt.Sprintf("they have %d bytes together; at most %d are allowed", total, metav1validation.TotalAnnotationSizeLimitB)}
	}
	return nil
}
