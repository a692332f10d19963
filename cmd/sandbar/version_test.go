// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsTheBuildsOrThatOfTheModule(t *testing.T) {
	of := func(version string) *debug.BuildInfo { return &debug.BuildInfo{Main: debug.Module{Version: version}} }
	for name, c := range map[string]struct {
		stamped string
		info    *debug.BuildInfo
		want    string
	}{
		"make build":                    {"v1.2.0-3-g0123abc", of("v1.2.1-0.20261127"), "v1.2.0-3-g0123abc"},
		"go install of a version":       {unstamped, of("v1.2.0"), "v1.2.0"},
		"go build outside of a module":  {unstamped, of("(devel)"), unstamped},
		"a build without a record":      {unstamped, nil, unstamped},
		"a record without the module's": {unstamped, of(""), unstamped},
	} {
		if got := installedVersion(c.stamped, c.info, c.info != nil); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if version != unstamped {
		t.Errorf("the source has the version %q, which builds without a stamp would have", version)
	}
}
