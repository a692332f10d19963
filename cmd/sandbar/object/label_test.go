// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package object

import (
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/clitest"
)

func TestLabelAndAnnotateChangeWhatIsMeant(t *testing.T) {
	w := newWorld(t)
	s := w.Stocked(t)
	version := s.Object("sandboxes", "default", "api").GetResourceVersion()
	w.Transcript(t, "label.golden", []clitest.Turn{
		{Name: "a new label, and one less", Args: "label sandbox web team=shop tier-"},
		{Name: "as it is now", Args: "get sandbox web --show-labels --no-headers"},
		{Name: "labels that it has", Args: "label sandbox web team=shop tier-"},
		{Name: "a label that has another value", Args: "label sandbox web env=test"},
		{Name: "a label that has another value, to overwrite", Args: "label sandbox/web env=test --overwrite"},
		{Name: "by a selector", Args: "label sandboxes -l env=test team=ops --overwrite"},
		{Name: "all", Args: "label sandboxes --all -A seen=yes"},
		{Name: "none", Args: "label sandboxes -l env=stage seen=yes"},
		{Name: "a dry run", Args: "label sandbox web team=none --overwrite --dry-run"},
		{Name: "the object that is changed, for a program", Args: "label sandbox web last=yes -o jsonpath={.metadata.labels}"},
		{Name: "in a version that it has no more", Args: "label sandbox api x=y --resource-version " + version},
		{Name: "one that is not there", Args: "label sandbox wbe x=y"},
		{Name: "an annotation", Args: "annotate sandbox web note='asked for by Kim'"},
		{Name: "an annotation that has another value", Args: "annotate sandbox web note=x"},
		{Name: "an annotation less", Args: "annotate sandbox web note-"},
		{Name: "without labels", Args: "label sandbox web"},
		{Name: "without a name", Args: "label sandboxes a=b"},
		{Name: "without a kind", Args: "label a=b"},
		{Name: "a label that cannot be", Args: "label sandbox web 'a b=c'"},
		{Name: "a label that is set and taken away", Args: "label sandbox web a=b a-"},
		{Name: "a name behind the labels", Args: "label sandbox a=b web"},
		{Name: "names and all", Args: "label sandbox web a=b --all"},
		{Name: "a version of all", Args: "label sandboxes a=b --all --resource-version 7"},
	})
}

// A label that somebody gave a control character would be one that no server takes: it is refused here, and quoted.
func TestTextsOfTheCallCannotReachTheTerminalAsControlCharacters(t *testing.T) {
	w := newWorld(t)
	w.Stocked(t)
	for _, args := range [][]string{
		{"label", "sandbox", "web", "a=\x1b[2J"},
		{"get", "sandboxes", "-l", "a=\x1b[2J"},
		{"get", "\x1b[2J"},
		{"get", "sandbox", "\x1b[2J"},
		{"create", "sandbox", "x", "--set", "\x1b[2J=1"},
	} {
		if code, stdout, stderr := w.Run(t, args...); code == 0 || strings.Contains(stdout+stderr, "\x1b") {
			t.Errorf("%q: %d %q", args, code, stdout+stderr)
		}
	}
}
