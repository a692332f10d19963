// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || windows

package devsync

import (
	"strings"
	"testing"
)

func TestWhichRulesOfASandboxIgnoreLess(t *testing.T) {
	for name, c := range map[string]struct {
		above     string // a .gitignore above the directory of the file
		global    string // core.excludesFile
		old, text string
		want      bool
	}{
		"a line is gone":                         {old: "secret.json\nprivate/\n", text: "private/\n", want: true},
		"all lines are gone":                     {old: "secret.json\n", text: "# nothing\n", want: true},
		"the file is gone":                       {old: "secret.json\n", want: true},
		"a file without rules is gone":           {old: "# nothing\n\n"},
		"a line is added":                        {old: "secret.json\n", text: "node_modules\nsecret.json\ndist/\n"},
		"a comment has changed":                  {old: "# a\nsecret.json\n", text: "# b\n\nsecret.json\n"},
		"an exception is added":                  {old: "secret.json\n", text: "secret.json\n!secret.json\n", want: true},
		"an exception stays":                     {old: "*.log\n!keep.log\n", text: "*.log\n!keep.log\ndist\n"},
		"an exception is taken back":             {old: "*.log\n!keep.log\n", text: "*.log\n", want: true}, // it cannot tell
		"lines change their order":               {old: "!keep.log\n*.log\n", text: "*.log\n!keep.log\n", want: true},
		"a line is commented out":                {old: "secret.json\n", text: "#secret.json\n", want: true},
		"a line has a mark before it":            {old: "secret.json\n", text: "\ufeffsecret.json\n", want: true},
		"lines lie beyond what is read":          {old: "secret.json\n", text: strings.Repeat("#\n", maxIgnoreBytes/2), want: true},
		"a new file":                             {text: "node_modules\n.vscode/*\n!.vscode/extensions.json\n!keep\n"},
		"a new file below rules, without any !":  {above: "secret.json\n", text: "node_modules\n"},
		"a new file brings one back":             {above: "secret.json\n", text: "!secret.json\n", want: true},
		"a new file brings all back":             {above: "/a/secret.json\n", text: "!*\n", want: true},
		"a new file brings a path back":          {above: "a/b/secret.json\n", text: "!b/secret.json\n", want: true},
		"a new file brings nothing back":         {above: "secret.json\n", text: ".vscode/*\n!.vscode/extensions.json\n"},
		"a new file brings back what is nowhere": {global: "*.key\n", text: "!*.key\n", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &above{defaults: []string{editorFiles}}
			if c.global != "" {
				a.defaults = append(a.defaults, c.global)
			}
			r := newRules(a)
			r.add(ruleFile{"", ".gitignore", c.above})
			dir := "a"
			r.add(ruleFile{dir, ".gitignore", c.old})
			if got := r.looser(dir, c.old, c.text); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
