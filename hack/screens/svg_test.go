// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpansHaveTheLooksOfALine(t *testing.T) {
	got := spans("plain ␛[1mbold␛[m ␛[7;31mred␛[0m ␛[32m漢字␛[mx")
	want := []span{
		{at: 0, text: "plain "},
		{look{bold: true}, 6, "bold"},
		{at: 10, text: " "},
		{look{colour: palette[31], reverse: true}, 11, "red"},
		{at: 14, text: " "},
		{look{colour: palette[32]}, 15, "漢字"},
		{at: 19, text: "x"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{}, look{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestARecordingEndsWithTheNextCommand(t *testing.T) {
	lines := []string{"$ a b", "one", "", "$ a c", "two", ""}
	for command, want := range map[string]string{"$ a b": "$ a b|one", "$ a c": "$ a c|two", "$ x": ""} {
		if got := strings.Join(recording(lines, command), "|"); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
}

func TestAPictureIsWellFormed(t *testing.T) {
	for _, record := range []bool{false, true} {
		text := svg("a <title> & more", []string{"$ a <b> & 'c'", strings.Repeat("x", 300), "␛[7m ␛[m"}, record)
		in := xml.NewDecoder(strings.NewReader(text))
		for {
			_, err := in.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
		}
		if strings.Contains(text, "animation-delay") != record {
			t.Errorf("a recording: %t\n%s", record, text)
		}
	}
}

// make verify compares the same; this is for a change that is tested alone.
func TestThePicturesAreThoseOfTheGoldenFiles(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "docs", "pictures"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		golden := filepath.Join(root, p.golden)
		content, err := os.ReadFile(filepath.Join("../..", p.golden))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := draw(root, p.file, p.golden, p.title, p.command); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(filepath.Join(root, "docs", "pictures", p.file))
		want, err := os.ReadFile(filepath.Join("../../docs/pictures", p.file))
		if err != nil || string(want) != string(got) {
			t.Errorf("docs/pictures/%s is not what its golden file shows: run make screens (%v)", p.file, err)
		}
	}
}
