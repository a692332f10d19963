// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dataplane

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	docLink     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	docLinkText = regexp.MustCompile(`\[([^\]]*)\]\([^()]*\)`)
	docCode     = regexp.MustCompile("`[^`\n]*`")
)

// Every relative link in the documents leads to a file, and its anchor to a heading of that file.
func TestLinksOfTheDocumentsResolve(t *testing.T) {
	checked := 0
	for _, doc := range documents(t) {
		lines := proseLines(t, doc)
		for number, line := range lines {
			for _, match := range docLink.FindAllStringSubmatch(docCode.ReplaceAllString(line, ""), -1) {
				if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
					continue
				}
				checked++
				if reason := brokenLink(t, doc, match[1]); reason != "" {
					t.Errorf("%s:%d: link %s: %s", doc, number+1, match[1], reason)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d links were found", checked)
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	docs := []string{"../README.md", "../CONTRIBUTING.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/adr/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no documents match %s: %v", pattern, err)
		}
		docs = append(docs, found...)
	}
	return docs
}

// brokenLink returns why a link in doc does not resolve, or "" if it does.
func brokenLink(t *testing.T, doc, link string) string {
	t.Helper()
	path, anchor, hasAnchor := strings.Cut(link, "#")
	target := doc
	if path != "" {
		target = filepath.Join(filepath.Dir(doc), path)
	}
	if _, err := os.Stat(target); err != nil {
		return "the file does not exist"
	}
	if hasAnchor && strings.HasSuffix(target, ".md") && !anchors(t, target)[anchor] {
		return "the file has no such heading"
	}
	return ""
}

// proseLines returns the lines of a document, with those of code blocks left empty.
func proseLines(t *testing.T, doc string) []string {
	t.Helper()
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	inCode := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || inCode {
			lines[i] = ""
		}
		if fence {
			inCode = !inCode
		}
	}
	return lines
}

// anchors returns the anchors that GitHub makes of a document's headings.
func anchors(t *testing.T, doc string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range proseLines(t, doc) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		base := anchor(heading)
		name := base
		for n := 1; found[name]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		found[name] = true
	}
	return found
}

func anchor(heading string) string {
	heading = docLinkText.ReplaceAllString(strings.TrimSpace(heading), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
