// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEditOnTheLeftRunOnTheRight is what the development loop is for: a Vite project on a
// person's disk, `sandbar dev` beside it, and a real Chromium with the preview. What is saved
// appears by hot module replacement; the page is never loaded anew.
func TestEditOnTheLeftRunOnTheRight(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newTerminal(t, tn)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	if err := os.CopyFS(s.dir, os.DirFS(filepath.Join("..", "examples", "vite"))); err != nil {
		t.Fatal(err)
	}
	out, notes, stop := s.begin("dev", "web", s.dir, "--create",
		"--start-command", "exec /opt/app-deps/node_modules/.bin/vite --configLoader native")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("dev said %s\nthe app said %s", notes, out)
		}
	})
	await(t, notes, "in sync")

	p := newBrowser(t).open(t, strings.TrimSpace(s.must("open", "web", "--print")))
	until(p, "document.querySelector('#message')?.textContent ?? document.body.innerText", "Hello from Vite")
	// The page notes when it shows what; its clock is this machine's.
	eval[bool](p, `window.survivor = true; window.seen = {};
		new MutationObserver(() => { window.seen[document.querySelector('#message').textContent] ??= Date.now(); })
			.observe(document.querySelector('#message'), {childList: true, characterData: true, subtree: true}); true`)

	var took []time.Duration
	edit := func(save func(name, content string), patience time.Duration) error {
		text := "edited " + randomHex(4)
		began := time.Now()
		save("message.js", "export const message = '"+text+"';\n")
		err := poll(t.Context(), patience, func() error {
			at, err := try[int64](p, fmt.Sprintf("window.seen?.[%q] ?? 0", text))
			if err == nil && at == 0 {
				err = errors.New("the page does not show it")
			}
			if err == nil {
				took = append(took, time.UnixMilli(at).Sub(began))
			}
			return err
		})
		return err
	}
	// Vite's client connects after the page has loaded, and misses an edit before that.
	eventually(t, "the page shows an edit", func() error { return edit(s.write, 10*time.Second) })
	took = nil
	// Vite's watcher drops a change of a path that it sees within 50 ms of another. On a busy machine it may
	// see one long after it was made, so the time counts from when the page shows it. Sync's part is that the
	// sandbox has what was saved, which holds for every edit.
	const edits, mayBeDropped = 6, 1
	pace := time.NewTimer(0)
	defer pace.Stop()
	dropped := 0
	for i := range edits {
		pace.Reset(250 * time.Millisecond)
		<-pace.C
		save := s.write
		if i%2 == 1 {
			save = s.replace
		}
		err := edit(save, 30*time.Second)
		if err == nil {
			continue
		}
		here, errRead := os.ReadFile(filepath.Join(s.dir, "message.js"))
		if there := s.must("exec", "web", "--", "cat", "message.js"); errRead != nil || there != string(here) {
			t.Fatalf("edit %d: the sandbox has %q, the disk %q (%v); dev said %s", i, there, here, errRead, notes)
		}
		if dropped++; dropped > mayBeDropped {
			t.Fatalf("edit %d: %v; dev said %s", i, err, notes)
		}
		t.Logf("edit %d: %v, and the sandbox has it; the app said %s", i, err, out)
	}
	if !eval[bool](p, "window.survivor === true") {
		t.Error("the page was loaded anew")
	}
	slices.Sort(took)
	t.Logf("from save to visible, %d edits: median %v, slowest %v", len(took), took[len(took)/2], took[len(took)-1])
	if code := stop(); code != 130 {
		t.Errorf("dev ended with %d: %s", code, notes)
	}
}

// replace saves a file as many editors do: a new one takes the name.
func (s *terminal) replace(name, content string) {
	s.t.Helper()
	s.write(name+"~", content)
	if err := os.Rename(filepath.Join(s.dir, name+"~"), filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}
