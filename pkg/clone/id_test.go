// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAnIDIsMadeOfRandomBytes(t *testing.T) {
	for name, row := range map[string]struct {
		bytes []byte
		want  string
	}{
		"the first letters":                  {[]byte{0, 1, 2, 3, 4, 5, 6, 7}, "sbx-abcdefgh"},
		"the digits":                         {[]byte{26, 35, 26, 35, 26, 35, 26, 35}, "sbx-09090909"},
		"the alphabet again and again":       {[]byte{36, 72, 108, 144, 180, 216, 251, 0}, "sbx-aaaaaa9a"},
		"bytes that would be unfair are not": {[]byte{252, 0, 253, 0, 254, 0, 255, 0, 0, 0, 0, 0}, "sbx-aaaaaaaa"},
	} {
		if got, err := NewID(bytes.NewReader(row.bytes)); got != row.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, row.want)
		}
	}
}

// Each character has the same chance: over all values of a byte, each of the 36 comes seven times.
func TestEachCharacterOfAnIDHasTheSameChance(t *testing.T) {
	count := map[byte]int{}
	for b := range 256 {
		id, err := NewID(io.MultiReader(bytes.NewReader([]byte{byte(b)}), bytes.NewReader(make([]byte, idLength))))
		if err != nil {
			t.Fatal(err)
		}
		if b < 252 {
			count[id[len(idPrefix)]]++
		}
		if !regexp.MustCompile(`^sbx-[a-z0-9]{8}$`).MatchString(id) {
			t.Errorf("the ID is %q", id)
		}
	}
	for _, c := range []byte(idAlphabet) {
		if count[c] != 7 {
			t.Errorf("%c comes %d times", c, count[c])
		}
	}
}

func TestAnIDWithoutRandomBytes(t *testing.T) {
	broken := errors.New("broken")
	if _, err := NewID(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
	if _, err := NewID(strings.NewReader("short")); !errors.Is(err, io.EOF) {
		t.Errorf("err = %v", err)
	}
	if _, err := NewID(bytes.NewReader(bytes.Repeat([]byte{255}, 10_000))); err == nil {
		t.Error("there is no error for a source that is not random")
	}
}

func TestTheFormOfAnID(t *testing.T) {
	for text, want := range map[string]bool{
		"sbx-abcd1234": true, "sbx-zzzzzzzz": true, "sbx-00000000": true,
		"": false, "sbx-": false, "sbx-abcd123": false, "sbx-abcd12345": false, "abcd1234": false, "SBX-abcd1234": false,
		"sbx-ABCD1234": false, "sbx-abc.1234": false, "sbx-abcd1234\n": false, " sbx-abcd1234": false, "sbx-.*......": false, "sbx-abcd123é": false,
	} {
		if got := IsID(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
