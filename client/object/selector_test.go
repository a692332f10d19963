// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestASelectorIsCheckedBeforeItIsSent(t *testing.T) {
	eleven := strings.TrimSuffix(strings.Repeat("a=b,", 11), ",")
	for name, c := range map[string]struct{ selector, want string }{
		"equality":              {"env=prod", ""},
		"double equality":       {"env==prod", ""},
		"inequality":            {"env!=prod", ""},
		"existence":             {"env", ""},
		"absence":               {"!env", ""},
		"a set":                 {"env in (prod, test)", ""},
		"not in a set":          {"env notin (prod)", ""},
		"all of them":           {"env=prod,tier in (web,api),!legacy,owner", ""},
		"nothing selects all":   {"", ""},
		"ten requirements":      {strings.TrimSuffix(strings.Repeat("a=b,", 10), ","), ""},
		"eleven requirements":   {eleven, "the selector has 11 requirements; at most 10 are allowed: write several values of one key as a set, such as env in (prod, test)"},
		"in without ()":         {"env in prod", `the selector "env in prod" does not parse: in needs parentheses: env in (prod)`},
		"notin without ()":      {"a=b,env notin prod, test", `the selector "a=b,env notin prod, test" does not parse: notin needs parentheses: env notin (prod, test)`},
		"an unknown operator":   {"env~prod", `the selector "env~prod" does not parse: `},
		"a value that is none":  {"env=a b", `the selector "env=a b" does not parse: `},
		"a key that is none":    {"-env=a", `the selector "-env=a" does not parse: `},
		"ten KiB":               {"env=" + strings.Repeat("a", 10<<10), "the selector has 10244 bytes; at most 8192 are allowed"},
		"a control character":   {"env=\x1b[31m", `the selector has a control character ('\x1b') at position 5`},
		"a line break":          {"env=a\nb", `the selector has a control character ('\n') at position 6`},
		"parentheses left open": {"env in (prod", `the selector "env in (prod" does not parse: `},
	} {
		t.Run(name, func(t *testing.T) {
			selector, err := ParseSelector(c.selector)
			if c.want == "" {
				if err != nil || selector == nil {
					t.Fatalf("%v", err)
				}
				return
			}
			var refused *SelectorError
			if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want one line that begins with %q", err, c.want)
			}
		})
	}
}

func TestAFieldSelectorNamesFieldsThatAWorkspaceServes(t *testing.T) {
	for selector, want := range map[string]string{
		"metadata.name=web":                         "",
		"metadata.name!=web,metadata.namespace=dev": "",
		"":                   "",
		"status.phase=Ready": `the field selector "status.phase=Ready" names the field "status.phase"; a workspace selects by metadata.name and metadata.namespace: use --selector with labels for others`,
		"metadata.name":      `the field selector "metadata.name" does not parse: write FIELD=VALUE or FIELD!=VALUE, such as metadata.name=web`,
		"metadata.name=" + strings.Repeat("a", 9000): "the field selector has 9014 bytes; at most 8192 are allowed",
	} {
		_, err := ParseFieldSelector(selector)
		if got := text(err); got != want {
			t.Errorf("%.40q: %q, want %q", selector, got, want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestLabelsAreCheckedBeforeTheyAreSent(t *testing.T) {
	long := strings.Repeat("x", 64)
	for pair, want := range map[string]string{
		"env=prod":                        "",
		"env=":                            "",
		"example.com/team=a":              "",
		"a b=c":                           `"a b=c": the key "a b" has ' ' at position 2: it may have letters, digits, '-', '_' and '.'`,
		"example.com/a b=c":               `"example.com/a b=c": the key "example.com/a b" has ' ' at position 14: it may have letters, digits, '-', '_' and '.'`,
		"-env=c":                          `"-env=c": the key "-env" begins with '-': it has to begin and end with a letter or digit`,
		"env_=c":                          `"env_=c": the key "env_" ends with '_': it has to begin and end with a letter or digit`,
		"env=a/b":                         `"env=a/b": the value "a/b" has '/' at position 2: it may have letters, digits, '-', '_' and '.'`,
		"env=a.":                          `"env=a.": the value "a." ends with '.': it has to begin and end with a letter or digit`,
		"env=" + long:                     `"env=` + long + `": the value has 64 characters; at most 63 are allowed`,
		long + "=a":                       `"` + long + `=a": the key has 64 characters; at most 63 are allowed`,
		"=a":                              `"=a": the key is empty`,
		"a/b/c=d":                         `"a/b/c=d": the key "a/b/c" has more than one '/': a key is NAME or PREFIX/NAME, such as example.com/team`,
		"Example.com/a=b":                 `"Example.com/a=b": the prefix "Example.com" of the key is not a DNS name: a prefix has lower-case letters, digits, '-' and '.', and at most 253 characters`,
		"example.com/=b":                  `"example.com/=b": the key "example.com/" has nothing behind its '/'`,
		"env":                             `"env": write the label as KEY=VALUE`,
		"env-":                            `"env-": write the label as KEY=VALUE`,
		"env=\x1b[31m":                    `"env=\x1b[31m": the value "\x1b[31m" has '\x1b' at position 1: it may have letters, digits, '-', '_' and '.'`,
		"env=é":                           `"env=é": the value "é" has 'é' at position 1: it may have letters, digits, '-', '_' and '.'`,
		"env=a=b":                         `"env=a=b": the value "a=b" has '=' at position 2: it may have letters, digits, '-', '_' and '.'`,
		strings.Repeat("e", 254) + "/a=b": `"` + strings.Repeat("e", 254) + `/a=b": the prefix "` + strings.Repeat("e", 254) + `" of the key is not a DNS name: a prefix has lower-case letters, digits, '-' and '.', and at most 253 characters`,
	} {
		_, err := Labels.Parse([]string{pair}, false)
		var refused *PairError
		if got := text(err); got != want || err != nil && !errors.As(err, &refused) {
			t.Errorf("%.80s\ngot  %q\nwant %q", pair, got, want)
		}
	}
}

func TestPairsThatContradictEachOtherAreRefused(t *testing.T) {
	for _, c := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"a=1", "a=1"}, ""},
		{[]string{"a-", "a-"}, ""},
		{[]string{"a=1", "b-"}, ""},
		{[]string{"a=1", "a=2"}, `"a=2": the label a is given twice, with the values "1" and "2"`},
		{[]string{"a=1", "a-"}, `"a-": the label a is set and taken away in one call`},
		{[]string{"a-", "a=1"}, `"a=1": the label a is set and taken away in one call`},
		{[]string{"a"}, `"a": write KEY=VALUE to set the label, or KEY- to take it away`},
	} {
		_, err := Labels.Parse(c.pairs, true)
		if text(err) != c.want {
			t.Errorf("%v: %q, want %q", c.pairs, text(err), c.want)
		}
	}
	pairs, err := Labels.Parse([]string{"a=1", "b-", "b-"}, true)
	if err != nil || pairs.Set["a"] != "1" || len(pairs.Remove) != 1 || pairs.Empty() {
		t.Errorf("%v %v", pairs, err)
	}
}

func TestAnnotationsTakeAnyValueUpToTheServersLimit(t *testing.T) {
	if _, err := Annotations.Parse([]string{"note=a b/c=\n", "example.com/x="}, false); err != nil {
		t.Error(err)
	}
	_, err := Annotations.Parse([]string{"note=" + strings.Repeat("x", 256<<10)}, false)
	if want := `"annotations": they have 262148 bytes together; at most 262144 are allowed`; text(err) != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// A label or a selector that is taken here is taken by the server, and the other way round.
func FuzzLabelsAreThoseOfTheServer(f *testing.F) {
	for _, seed := range []string{"env=prod", "example.com/a=b", "a b=c", "=", "a/b/c=d", "x=" + strings.Repeat("y", 64), "É=b", "a=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pair string) {
		key, value, ok := strings.Cut(pair, "=")
		valid := ok && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
		pairs, err := Labels.Parse([]string{pair}, false)
		if valid != (err == nil) {
			t.Fatalf("%q: the server takes it: %t, and here: %v", pair, valid, err)
		}
		if err == nil && pairs.Set[key] != value {
			t.Errorf("%q is read as %v", pair, pairs.Set)
		}
	})
}

func FuzzSelectorsAreThoseOfTheServer(f *testing.F) {
	for _, seed := range []string{"env=prod", "a in (b,c),!d", "env in prod", "a notin (b", "x>5", "a=b,", "\x00", "!"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, selector string) {
		want, parseErr := labels.Parse(selector)
		got, err := ParseSelector(selector)
		if err == nil && (parseErr != nil || got.String() != want.String()) {
			t.Fatalf("%q is taken here, and the server says: %v", selector, parseErr)
		}
		var refused *SelectorError
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%q: %T", selector, err)
		}
	})
}
