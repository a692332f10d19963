// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// side is one side's files: content by path.
type side map[string]string

// edit changes a side at random, within a few paths so that both sides meet.
func (s side) edit(r *rand.Rand) {
	for range 1 + r.IntN(4) {
		path := fmt.Sprintf("d%d/f%d", r.IntN(3), r.IntN(4))
		if r.IntN(4) == 0 {
			delete(s, path)
		} else {
			s[path] = fmt.Sprintf("%d%s", r.IntN(1000), string(make([]byte, r.IntN(300))))
		}
	}
}

// disk reads or writes a side as the app does, behind the runner's back.
func disk(t *testing.T, dir string) side {
	t.Helper()
	found := side{}
	for path := range paths() {
		if content, err := os.ReadFile(filepath.Join(dir, path)); err == nil {
			found[path] = string(content)
		}
	}
	return found
}

func (s side) write(t *testing.T, dir string) {
	t.Helper()
	for path := range paths() {
		full := filepath.Join(dir, path)
		content, there := s[path]
		if !there {
			_ = os.Remove(full)
			continue
		}
		if old, err := os.ReadFile(full); err == nil && string(old) == content {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func paths() map[string]bool {
	all := map[string]bool{}
	for d := range 3 {
		for f := range 4 {
			all[fmt.Sprintf("d%d/f%d", d, f)] = true
		}
	}
	return all
}

func entryOf(s side, path string) *syncwire.Entry {
	content, there := s[path]
	if !there {
		return &syncwire.Entry{Type: syncwire.None}
	}
	return &syncwire.Entry{Type: syncwire.File, Digest: sum([]byte(content))}
}

// A client and an app edit at random; the client sends what it changed since both
// sides were equal, naming what it takes for there. The answer to a batch may be
// lost, and runners come and go. Each batch is either applied whole, or refused with
// exactly the paths that both sides changed to different things; then the client
// takes the sandbox's side of those and goes on.
func TestBothSidesSettleOrEveryDifferenceIsAConflict(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			dir := filepath.Join(t.TempDir(), "workspace")
			open := func() *sandbox { return startSandbox(t, "", func(c *Config) { c.Workdir = dir }) }
			s := open()
			callJSON[statusReply](s, "GET", "/status", "", 200)
			agreed, client := side{}, side{}
			var applied, refused int
			for range 40 {
				client.edit(r)
				app := disk(t, dir)
				if r.IntN(2) == 0 {
					app.edit(r)
					app.write(t, dir)
				}
				if r.IntN(10) == 0 {
					if err := s.stop(); err != nil {
						t.Fatal(err)
					}
					s = open()
				}
				b, want := newBatch(nil), map[string]bool{}
				changed := 0
				for _, path := range slices.Sorted(maps.Keys(paths())) {
					if same(agreed, client, path) {
						continue
					}
					changed++
					if !same(agreed, app, path) && !same(client, app, path) {
						want[path] = true
					}
					if content, there := client[path]; there {
						b.file(path, content, entryOf(agreed, path))
					} else {
						b.delete(path, entryOf(agreed, path))
					}
				}
				if err := b.End(); err != nil {
					t.Fatal(err)
				}
				body := b.body.Bytes()
				response := s.postFrames(bytes.NewReader(body))
				status := response.StatusCode
				_ = response.Body.Close() // the answer is lost
				if len(want) == 0 && r.IntN(3) == 0 {
					again := s.postFrames(bytes.NewReader(body))
					if _ = again.Body.Close(); again.StatusCode != http.StatusOK {
						t.Fatalf("the same batch sent again is answered %d", again.StatusCode)
					}
				}
				got := disk(t, dir)
				if len(want) > 0 {
					refused++
					if status != http.StatusConflict || !cmp.Equal(got, app) {
						t.Fatalf("%v conflict, and the answer is %d; the sandbox changed:\n%s", want, status, cmp.Diff(app, got))
					}
					for path := range want { // resolved: the sandbox's side is taken
						if content, there := app[path]; there {
							client[path] = content
							agreed[path] = content
						} else {
							delete(client, path)
							delete(agreed, path)
						}
					}
					continue
				}
				applied++
				for path := range paths() {
					if !same(agreed, client, path) && !same(client, got, path) || same(agreed, client, path) && !same(app, got, path) {
						t.Fatalf("status %d: %s is %q; agreed %q, client %q, app %q", status, path, got[path], agreed[path], client[path], app[path])
					}
				}
				// The client reads back what the app changed: both sides are equal.
				_, entries := s.list("")
				for path := range paths() {
					if e, there := entries[path]; there != hasPath(got, path) || there && e.Digest != sum([]byte(got[path])) {
						t.Fatalf("the listing has %+v for %s, which is %q", e, path, got[path])
					}
				}
				client, agreed = maps.Clone(got), maps.Clone(got)
			}
			t.Logf("%d batches were applied, %d refused", applied, refused)
			if applied == 0 || refused == 0 {
				t.Error("the sides never met, or never agreed")
			}
		})
	}
}

func hasPath(s side, path string) bool {
	_, there := s[path]
	return there
}

func same(a, b side, path string) bool {
	return hasPath(a, path) == hasPath(b, path) && a[path] == b[path]
}
