// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/limit"
)

var provingTest = regexp.MustCompile(`\b([a-z0-9/-]+) ((?:Test|Fuzz)[A-Z]\w*)`)

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

// Several advisories are met by the standard library alone: the last of those that the document
// names was fixed in this version.
func TestTheGoVersionHasTheFixes(t *testing.T) {
	const fixed = "go1.26.6"
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var toolchain string
	if match := regexp.MustCompile(`(?m)^toolchain (go\S+)$`).FindSubmatch(mod); match != nil {
		toolchain = string(match[1])
	}
	for where, found := range map[string]string{"go.mod's toolchain": toolchain, "what built this test": strings.Fields(runtime.Version())[0]} {
		if version.Compare(found, fixed) < 0 {
			t.Errorf("%s is %q, older than %s", where, found, fixed)
		}
	}
}

var (
	limitRow     = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| ([^|]*) \\|")
	limitName    = regexp.MustCompile("`(\\w+)`")
	limitNumber  = regexp.MustCompile(`([0-9][0-9,]*)( KiB| MiB)?`)
	limitOfField = regexp.MustCompile(`Defaults\s+to ([0-9]+)[^"]*json:"(\w+),`)
)

// docs/limits.md and the InfrastructureProvider's own documentation have every limit and its default.
func TestTheTableOfLimitsIsComplete(t *testing.T) {
	doc, err := os.ReadFile("../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	limitsDoc, _, there := strings.Cut(string(doc), "\n## What a placement and its pods may use\n")
	if !there {
		t.Fatal("what follows the table of spec.limits has another heading")
	}
	inTable := map[string]float64{}
	for _, row := range limitRow.FindAllStringSubmatch(limitsDoc, -1) {
		names, numbers := limitName.FindAllStringSubmatch(row[1], -1), limitNumber.FindAllStringSubmatch(row[2], -1)
		if len(names) != len(numbers) {
			t.Fatalf("%s has the defaults %s", row[1], row[2])
		}
		for i, number := range numbers {
			inTable[names[i][1]] = numberOf(t, number[1]) * map[string]float64{"": 1, " KiB": 1 << 10, " MiB": 1 << 20}[number[2]]
		}
	}
	ofFields := map[string]float64{}
	for _, file := range []string{"limits_types.go", "placementlimits_types.go"} {
		source, err := os.ReadFile("../apis/v1alpha1/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range limitOfField.FindAllStringSubmatch(strings.ReplaceAll(string(source), "//", ""), -1) {
			ofFields[field[2]] = numberOf(t, field[1])
		}
	}
	var limits limit.Limits
	limits.SetDefaults()
	all := limits.ByName()
	all["instancesPerWorkspace"] = sandbarv1alpha1.DefaultInstancesPerWorkspace
	all["placements"] = sandbarv1alpha1.DefaultPlacements
	all["setReplicas"] = sandbarv1alpha1.DefaultSetReplicas
	if diff := cmp.Diff(all, inTable); diff != "" {
		t.Errorf("docs/limits.md (-code +doc):\n%s", diff)
	}
	if diff := cmp.Diff(all, ofFields); diff != "" {
		t.Errorf("the InfrastructureProvider's fields (-code +doc):\n%s", diff)
	}
}

func numberOf(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
