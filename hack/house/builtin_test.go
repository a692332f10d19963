// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/apis/builtin"
)

// namesKinds are the places where the name of a built-in kind may stand in code: its type, its entry in the register, the
// package of its controller, and what speaks of that one kind by its own nature. Everything else reads the register.
var namesKinds = []string{
	"apis/builtin/builtin.go",
	"apis/v1alpha1/", "apis/crds/", "pkg/podtemplate/schema/",
	"providers/infrastructure/sandboxtemplate/", "providers/infrastructure/sandboxset/", "providers/infrastructure/sandboxclaim/",
	"providers/infrastructure/sandboxroute/", "providers/infrastructure/devsession/",
	// These look an entry of the register up.
	"bench/claim/", "bench/stage/stage.go", "providers/infrastructure/sweep/sweep.go",
	// The verb by which a Sandbox of one SandboxTemplate is claimed.
	"client/claim.go", "client/session/claim.go", "cmd/sandbar/object/claim.go", "dataplane/claim/", "dataplane/claims.go", "dataplane/locate/route.go",
	// The command that shows a SandboxRoute.
	"cmd/sandbar/object/route.go",
	// Objects for the tests of commands.
	"cmd/sandbar/clitest/",
}

// A kind that is added must not have to be written into one more list somewhere: the census that lacked a kind would have
// deleted its placements, and the role that lacked one would have kept tenants from it.
func TestBuiltInKindsAreNamedInTheRegisterAlone(t *testing.T) {
	for _, file := range codeAndManifests(t) {
		if slices.ContainsFunc(namesKinds, func(place string) bool { return strings.HasPrefix(file, place) }) {
			continue
		}
		for _, problem := range kindsNamed(read(t, file), builtin.Kinds) {
			t.Errorf("%s:%s; read it from apis/builtin", file, problem)
		}
	}
}

func TestNamesOfBuiltInKindsAreFound(t *testing.T) {
	throwaway := []builtin.Kind{{Name: "Throwaway", Resource: "throwaways"}}
	for text, found := range map[string]bool{
		`x = "throwaways"`:                     true,
		`resources: [things, throwaways]`:      true,
		`resources: [throwaways/status]`:       true,
		`if kind == "Throwaway" {`:             true,
		"// Throwaways are told to throwaways": false,
		"# of throwaways":                      false,
		`x = "there is no Throwaway"`:          false,
		`import "example.com/throwaway"`:       false,
		`name: sandbar-throwaways`:             true,
	} {
		if got := kindsNamed(text, throwaway); (len(got) > 0) != found {
			t.Errorf("%s: found %v", text, got)
		}
	}
}

// kindsNamed returns the lines that name a built-in kind, outside of comments: its resource anywhere, or its kind as a
// whole string.
func kindsNamed(text string, kinds []builtin.Kind) (found []string) {
	for i, line := range strings.Split(text, "\n") {
		code := strings.TrimSpace(line)
		if strings.HasPrefix(code, "//") || strings.HasPrefix(code, "#") {
			continue
		}
		for _, kind := range kinds {
			if regexp.MustCompile(`\b`+kind.Resource+`\b`).MatchString(code) || strings.Contains(code, `"`+kind.Name+`"`) {
				found = append(found, fmt.Sprintf("%d: names %s", i+1, kind.Name))
			}
		}
	}
	return found
}

// codeAndManifests lists the Go files and the YAML files of the product: no tests, no documents, nothing generated.
func codeAndManifests(t *testing.T) (files []string) {
	t.Helper()
	for _, file := range texts(t) {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			files = append(files, file)
		}
	}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.yaml")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !strings.Contains(file, "testdata/") && !missing(file) {
			files = append(files, file)
		}
	}
	return files
}
