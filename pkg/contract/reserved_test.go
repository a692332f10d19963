// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/templates.md once listed six of the nine.
func TestTheDocumentListsTheReservedStatusFields(t *testing.T) {
	text, err := os.ReadFile("../../docs/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "* Status fields named ") {
			continue
		}
		var listed []string
		for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(line, -1) {
			listed = append(listed, m[1])
		}
		if !slices.Equal(listed, ReservedStatusFields) {
			t.Errorf("docs/templates.md lists %q, reserved are %q", listed, ReservedStatusFields)
		}
		return
	}
	t.Error("docs/templates.md has no line about reserved status fields")
}
