// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	for name, test := range map[string]struct {
		stat string
		want proc
		ok   bool
	}{
		"an ordinary process":           {"12 (sh) S 7 12 11 0 -1", proc{pid: 12, parent: 7, session: 11, state: 'S'}, true},
		"a name with spaces":            {"12 (a b c) R 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'R'}, true},
		"a name that forges the line":   {"12 (x) S 1 (y) Z 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'Z'}, true},
		"a name with a newline":         {"12 (a\n13 (b) S 1) S 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'S'}, true},
		"an empty name":                 {"12 () S 7 12 9", proc{pid: 12, parent: 7, session: 9, state: 'S'}, true},
		"the first process":             {"1 (init) S 0 1 9", proc{pid: 1, parent: 0, session: 9, state: 'S'}, true},
		"nothing":                       {"", proc{}, false},
		"no name":                       {"12 S 7", proc{}, false},
		"an end before its beginning":   {"12 )x( S 7", proc{}, false},
		"a line that is cut":            {"12 (sh) S", proc{}, false},
		"no session":                    {"12 (sh) S 7 12", proc{}, false},
		"a parent that is not a number": {"12 (sh) S x 1 1", proc{}, false},
		"a parent below zero":           {"12 (sh) S -1 2 2", proc{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat([]byte(test.stat))
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("parseStat(%q) = %+v, %v; want %+v", test.stat, got, err, test.want)
			}
		})
	}
}

func TestParseStatReadsTheKernelsOwn(t *testing.T) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseStat(stat)
	if err != nil || got.pid != os.Getpid() || got.parent != os.Getppid() || got.gone() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func FuzzParseStat(f *testing.F) {
	for _, seed := range []string{"12 (sh) S 7 12", "12 (x) S 1 (y) Z 7 12", "1 () X 0", "(", ")", "9 (\n) R 99999999999999999999"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stat []byte) {
		p, err := parseStat(stat)
		if err == nil && (p.pid <= 0 || p.parent < 0) {
			t.Errorf("parseStat(%q) = %+v", stat, p)
		}
	})
}
