// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"regexp"
	"strings"
	"testing"
)

// A server that does not tell its version passes every check for a minimum.
func TestEveryStampedPartTellsTheVersionThatItsModuleRequires(t *testing.T) {
	form := regexp.MustCompile(`^v1\.\d+\.\d+(\+kcp-v\d+\.\d+\.\d+)?$`)
	for name, kcp := range map[string]bool{"node": false, "kcp": true} {
		t.Run(name, func(t *testing.T) {
			chosen, err := Named([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			p, dir := chosen[0], "../../"+chosen[0].Module
			version, err := p.reportedVersion(t.Context(), dir)
			if err != nil || !form.MatchString(version) || strings.Contains(version, "kcp") != kcp {
				t.Errorf("it tells %q, %v", version, err)
			}
		})
	}
}

func TestLinkFlags(t *testing.T) {
	if got := linkFlags(""); got != "-s -w" {
		t.Errorf("without a version: %s", got)
	}
	got := linkFlags("v1.36.0+kcp-v0.32.3")
	for _, pkg := range stamped {
		for _, want := range []string{".gitVersion=v1.36.0+kcp-v0.32.3", ".gitMajor=1", ".gitMinor=36"} {
			if !strings.Contains(got+" ", "-X "+pkg+want+" ") {
				t.Errorf("%s lacks %s%s", got, pkg, want)
			}
		}
	}
}

func TestAPartThatNamesAModuleItDoesNotRequireIsRefused(t *testing.T) {
	p := Part{Name: "thing", VersionOf: []string{"example.test/other"}}
	if version, err := p.reportedVersion(t.Context(), module(t, sources())); err == nil || !strings.Contains(err.Error(), "example.test/other") {
		t.Errorf("it tells %q, %v", version, err)
	}
}
