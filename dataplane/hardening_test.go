// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var provingTest = regexp.MustCompile(`\b([a-z0-9/]+) ((?:Test|Fuzz)[A-Z]\w*)`)

// docs/hardening.md names tests; each of them must be there.
func TestTheHardeningTableNamesTestsThatExist(t *testing.T) {
	doc, err := os.ReadFile("../docs/hardening.md")
	if err != nil {
		t.Fatal(err)
	}
	named := provingTest.FindAllStringSubmatch(string(doc), -1)
	if len(named) < 50 {
		t.Fatalf("only %d tests are named", len(named))
	}
	sources := map[string]string{}
	for _, match := range named {
		pkg, name := match[1], match[2]
		if _, ok := sources[pkg]; !ok {
			files, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("there are no tests in %s", pkg)
			}
			var all strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				all.Write(text)
			}
			sources[pkg] = all.String()
		}
		if !strings.Contains(sources[pkg], "\nfunc "+name+"(") {
			t.Errorf("docs/hardening.md names %s %s, which is not there", pkg, name)
		}
	}
}

// docs/limits.md has every limit.
func TestTheTableOfLimitsIsComplete(t *testing.T) {
	doc, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range (&Limits{}).byName() {
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/limits.md does not have %s", name)
		}
	}
}
