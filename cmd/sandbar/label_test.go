// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestLabelAndAnnotateChangeWhatIsMeant(t *testing.T) {
	w := newWorld(t)
	s := w.stocked(t)
	version := s.Object("sandboxes", "default", "api").GetResourceVersion()
	w.transcript(t, "label.golden", []turn{
		{name: "a new label, and one less", args: "label sandbox web team=shop tier-"},
		{name: "as it is now", args: "get sandbox web --show-labels --no-headers"},
		{name: "labels that it has", args: "label sandbox web team=shop tier-"},
		{name: "a label that has another value", args: "label sandbox web env=test"},
		{name: "a label that has another value, to overwrite", args: "label sandbox/web env=test --overwrite"},
		{name: "by a selector", args: "label sandboxes -l env=test team=ops --overwrite"},
		{name: "all", args: "label sandboxes --all -A seen=yes"},
		{name: "none", args: "label sandboxes -l env=stage seen=yes"},
		{name: "a dry run", args: "label sandbox web team=none --overwrite --dry-run"},
		{name: "the object that is changed, for a program", args: "label sandbox web last=yes -o jsonpath={.metadata.labels}"},
		{name: "in a version that it has no more", args: "label sandbox api x=y --resource-version " + version},
		{name: "one that is not there", args: "label sandbox wbe x=y"},
		{name: "an annotation", args: "annotate sandbox web note='asked for by Kim'"},
		{name: "an annotation that has another value", args: "annotate sandbox web note=x"},
		{name: "an annotation less", args: "annotate sandbox web note-"},
		{name: "without labels", args: "label sandbox web"},
		{name: "without a name", args: "label sandboxes a=b"},
		{name: "without a kind", args: "label a=b"},
		{name: "a label that cannot be", args: "label sandbox web 'a b=c'"},
		{name: "a label that is set and taken away", args: "label sandbox web a=b a-"},
		{name: "a name behind the labels", args: "label sandbox a=b web"},
		{name: "names and all", args: "label sandbox web a=b --all"},
		{name: "a version of all", args: "label sandboxes a=b --all --resource-version 7"},
	})
}

// A label that somebody gave a control character would be one that no server takes: it is refused here, and quoted.
func TestTextsOfTheCallCannotReachTheTerminalAsControlCharacters(t *testing.T) {
	w := newWorld(t)
	w.stocked(t)
	for _, args := range [][]string{
		{"label", "sandbox", "web", "a=\x1b[2J"},
		{"get", "sandboxes", "-l", "a=\x1b[2J"},
		{"get", "\x1b[2J"},
		{"get", "sandbox", "\x1b[2J"},
		{"create", "sandbox", "x", "--set", "\x1b[2J=1"},
	} {
		if code, stdout, stderr := w.run(t, args...); code == 0 || strings.Contains(stdout+stderr, "\x1b") {
			t.Errorf("%q: %d %q", args, code, stdout+stderr)
		}
	}
}
