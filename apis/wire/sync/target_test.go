// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire_test

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
	"testing"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

func TestATargetIsWhereItLeads(t *testing.T) {
	for _, c := range []struct {
		path, target, want string
		err                error
		climbs             bool
	}{
		{path: "CLAUDE.md", target: "AGENTS.md", want: "AGENTS.md"},
		{path: "CLAUDE.md", target: "./AGENTS.md", want: "AGENTS.md"},
		{path: "common", target: "shared/", want: "shared"},
		{path: "l", target: "a//b", want: "a/b"},
		{path: "l", target: "a/./b/.", want: "a/b"},
		{path: "l", target: "."},
		{path: "l", target: "./"},
		{path: "d/l", target: ".."},
		{path: "d/l", target: "../"},
		{path: "d/l", target: "..//a", want: "a"},
		{path: "d/l", target: "./../a", want: "a"},
		{path: "d/l", target: "../d/a", want: "d/a"},
		{path: "d/e/l", target: "../../a", want: "a"},
		{path: "d/l", target: "x/../a", want: "d/a", climbs: true},
		{path: "d/l", target: "x/../../a", want: "a", climbs: true},
		{path: "l", target: "x/..", climbs: true},
		{path: "l", target: "...", want: "..."},
		{path: "l", target: "..a", want: "..a"},
		{path: "l", target: "", err: syncwire.ErrTargetEmpty},
		{path: "d/l", target: "/a", err: syncwire.ErrTargetAbsolute},
		{path: "l", target: "..", err: syncwire.ErrTargetOutside},
		{path: "d/l", target: "../..", err: syncwire.ErrTargetOutside},
		{path: "d/l", target: ".././..", err: syncwire.ErrTargetOutside},
		{path: "d/l", target: "../../d/a", err: syncwire.ErrTargetOutside},
		{path: "d/l", target: "x/../../../a", err: syncwire.ErrTargetOutside, climbs: true},
		{path: "l", target: "a\n", err: syncwire.ErrTargetForm},
		{path: "l", target: "a\x00/../b", err: syncwire.ErrTargetForm, climbs: true},
		{path: "l", target: `..\a`, err: syncwire.ErrTargetForm},
		{path: "l", target: "\xff", err: syncwire.ErrTargetForm},
	} {
		got, err := syncwire.ResolveTarget(c.path, c.target)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q at %q leads to %q, %v; want %q, %v", c.target, c.path, got, err, c.want, c.err)
		}
		if climbs := syncwire.ClimbsBehindName(c.target); climbs != c.climbs {
			t.Errorf("%q climbs behind a name: %t, want %t", c.target, climbs, c.climbs)
		}
	}
}

func FuzzResolveTarget(f *testing.F) {
	for _, seed := range [][2]string{{"d/l", "../a"}, {"l", "./a"}, {"l", "a/"}, {"d/e/l", "../../../x"}, {"l", "a/../../b"}, {"d/l", "a/../b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
			return
		}
		got, err := syncwire.ResolveTarget(name, target)
		if err != nil {
			return
		}
		want := path.Join(path.Dir(name), target)
		if strings.HasPrefix(target, "/") || want != got && (want != "." || got != "") {
			t.Errorf("%q at %q leads to %q, want %q", target, name, got, want)
		}
	})
}
