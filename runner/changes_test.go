// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

func TestChangesAreToldAsTheyHappenUntilTheRunnerEnds(t *testing.T) {
	s := startSandbox(t, "", nil)
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"a","content":"1"}]}`, 200)
	response := s.do(http.MethodGet, "/changes?exclude=node_modules", "")
	defer response.Body.Close()
	d := json.NewDecoder(response.Body)
	next := func() (c syncwire.Change) {
		t.Helper()
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := next(); response.StatusCode != http.StatusOK || c.Entry != nil || c.Resync != "" || c.Revision != 1 {
		t.Fatalf("%d, the first line is %+v", response.StatusCode, c)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "b"), []byte("from the app"), 0o600); err != nil {
		t.Fatal(err)
	}
	for c := next(); c.Size != 12; c = next() { // it may be seen before it has its content
		if c.Path != "b" || c.Revision != 1 {
			t.Errorf("the app's change is told as %+v", c)
		}
	}
	callJSON[syncwire.Reply](s, "POST", "/sync", `{"files":[{"path":"a","content":"2"}]}`, 200)
	if c := next(); c.Path != "a" || c.Digest != "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35" {
		t.Errorf("a sync is told as %+v", c)
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(new(syncwire.Change)); err == nil {
		t.Error("the stream outlives the runner")
	}
}

func TestWatchesAreFew(t *testing.T) {
	s := startSandbox(t, "", nil)
	for range maxWatches {
		response := s.do(http.MethodGet, "/changes", "")
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("the status is %d", response.StatusCode)
		}
		// The handler runs: its slot is taken.
		if err := json.NewDecoder(response.Body).Decode(new(syncwire.Change)); err != nil {
			t.Fatal(err)
		}
	}
	if e := callJSON[apiError](s, "GET", "/changes", "", http.StatusTooManyRequests); e.Code != "TooManyRequests" {
		t.Errorf("one more is %+v", e)
	}
}

func TestAnExcludeOfAWatchIsOneName(t *testing.T) {
	s := startSandbox(t, "", nil)
	for _, query := range []string{"exclude=a/b", "exclude=.."} {
		if e := callJSON[apiError](s, "GET", "/changes?"+query, "", http.StatusBadRequest); e.Code != "MalformedRequest" {
			t.Errorf("%s: %+v", query, e)
		}
	}
}

func TestAWorkspaceThatCannotBeWatchedIsToldWithTheRemedy(t *testing.T) {
	s := startSandbox(t, "", nil)
	callJSON[statusReply](s, "GET", "/status", "", 200) // the workspace is there
	for i := range 10_000 {
		if err := os.Mkdir(filepath.Join(s.dir, strconv.Itoa(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if e := callJSON[apiError](s, "GET", "/changes", "", http.StatusUnprocessableEntity); e.Code != "WatchLimit" {
		t.Errorf("the error is %+v", e)
	}
}
