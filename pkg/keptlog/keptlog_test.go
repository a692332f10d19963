// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package keptlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const text = "2026-11-22T10:00:00.5Z {\"level\":\"INFO\",\"msg\":\"the runner serves\",\"logger\":\"sandbar-runner\"}\n" +
	"2026-11-22T10:00:01Z one\n" +
	"the rest of a line that was cut\n" +
	"2026-11-22T10:00:02Z {\"logger\":\"mine\",\"msg\":\"about sandbar-runner\"}\n" +
	"2026-11-22T10:00:03Z three\n"

func TestWhichLinesAreWanted(t *testing.T) {
	c := Container{Runner: true, Text: []byte(text)}
	for name, test := range map[string]struct {
		question Question
		want     string
	}{
		"all":                 {Question{Tail: -1}, "one\nthe rest of a line that was cut\n{\"logger\":\"mine\",\"msg\":\"about sandbar-runner\"}\nthree\n"},
		"the last":            {Question{Tail: 1}, "three\n"},
		"none":                {Question{}, ""},
		"more than there are": {Question{Tail: 100, Since: time.Date(2026, 11, 22, 10, 0, 3, 0, time.UTC)}, "three\n"},
		"with their times":    {Question{Tail: 1, Timestamps: true}, "2026-11-22T10:00:03Z three\n"},
	} {
		if got := string(c.Lines(test.question)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A program other than the runner cannot hide its lines by the runner's name.
func TestOnlyARunnersLinesAreTheRunners(t *testing.T) {
	c := Container{Text: []byte(text)}
	if got := string(c.Lines(Question{Tail: -1})); !strings.Contains(got, "the runner serves") {
		t.Errorf("the lines are %q", got)
	}
}

// The most that is kept, of content that does not get smaller, goes into a Secret and comes back.
func TestTheMostThatIsKeptFits(t *testing.T) {
	noise := rand.NewChaCha8([32]byte{})
	kept := &Log{At: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)}
	for range MaxContainers {
		c := Container{Pod: "web-0", Name: "runner", Labels: map[string]string{"app": "web"}, Refs: []string{"status.podRef"}, Ports: []string{"control"}}
		c.Text = make([]byte, ContainerBytes)
		_, _ = noise.Read(c.Text)
		kept.Containers = append(kept.Containers, c)
	}
	data, err := kept.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if size := len(data[key]); size > corev1.MaxSecretSize {
		t.Errorf("it is %d bytes, and a Secret takes %d", size, corev1.MaxSecretSize)
	}
	back, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept, back); diff != "" {
		t.Errorf("(-kept +read)\n%.500s", diff)
	}
}

func TestWhatIsNoLogIsNotRead(t *testing.T) {
	bomb := &Log{Containers: []Container{{Text: bytes.Repeat([]byte{0}, 4*maxBytes)}}}
	large, err := bomb.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]map[string][]byte{"something else": {key: []byte("text")}, "too large": large} {
		if _, err := Decode(data); err == nil || errors.Is(err, ErrNone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decode(nil); !errors.Is(err, ErrNone) {
		t.Errorf("nothing: %v", err)
	}
}
