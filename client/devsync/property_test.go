// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package devsync_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbar-dev/sandbar/client/devsync"
)

// envProperty sets for how many seconds random trees are tried; without it the same fixedTrees are tried in each
// run. envSeed repeats one.
const (
	envProperty = "SANDBAR_PROPERTY_SECONDS"
	envSeed     = "SANDBAR_PROPERTY_SEED"
	fixedTrees  = 12
)

// Random edits on both sides, while the connection breaks anywhere, the runner is killed anywhere,
// the client is, and its notes lose their end. Once nothing fails any more:
//
//   - what a side edited is still there on that side, unless the other side built upon it;
//   - both sides are alike, or the difference is listed as a conflict;
//   - a conflict is listed only where both sides edited;
//   - preferring a side ends all conflicts at once;
//   - nothing outside of the two directories changed.
func TestAfterAnyFailureBothSidesAreAlikeOrTheDifferenceIsListed(t *testing.T) {
	seed, trees := uint64(1), 0
	more := func() bool { return trees < fixedTrees }
	if text := os.Getenv(envProperty); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", envProperty, err)
		}
		seed = uint64(time.Now().UnixNano())
		end := time.Now().Add(time.Duration(seconds) * time.Second)
		more = func() bool { return time.Now().Before(end) }
	}
	if text := os.Getenv(envSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", envSeed, err)
		}
		more = func() bool { return trees < 1 }
	}
	for ; more() && !t.Failed(); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			p := &property{world: newWorld(t), random: rand.New(rand.NewPCG(seed, 1))}
			write(t, p.dir, files{"keep": "k", "d/a": "1", "d/e/a": "2", "b": "3", "l": "-> b"})
			p.mustSync(twoWay)
			for range 6 {
				p.phase()
			}
		})
		trees++
	}
	t.Logf("%d random trees, up to seed %d", trees, seed-1)
}

type property struct {
	*world
	random  *rand.Rand
	counter int
	// torn: the client's notes lost their end in this phase.
	torn, crashed bool
	// edits has what each side wrote since both were alike and what the other side has not built
	// upon; ever has every path that it touched.
	edits, ever [2]files
}

const here, there = 0, 1

func (p *property) roots() [2]string { return [2]string{p.dir, p.workspace} }

var somePaths = []string{"a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "f/g/h", "l", "x.log"}

// edit changes one thing on one side, and notes what.
func (p *property) edit(side int) {
	root := p.roots()[side]
	before := read(p.t, root)
	p.change(root)
	after := read(p.t, root)
	for path := range with(before, after) {
		was, had := before[path]
		now, has := after[path]
		if had == has && was == now {
			continue
		}
		if !has {
			now = "-"
		}
		if !had {
			was = "-"
		}
		if p.edits[1-side][path] == was {
			delete(p.edits[1-side], path) // this side builds upon it
		}
		p.edits[side][path], p.ever[side][path] = now, now
	}
}

func (p *property) change(root string) {
	path := somePaths[p.random.IntN(len(somePaths))]
	full := filepath.Join(root, path)
	for dir := filepath.Dir(full); dir != root; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			_ = os.Remove(dir)
		}
	}
	p.counter++
	content := fmt.Sprintf("%d in %s", p.counter, filepath.Base(root))
	_ = os.RemoveAll(full)
	switch p.random.IntN(8) {
	case 0, 1:
	case 2:
		write(p.t, root, files{path: fmt.Sprintf("-> %d", p.counter)}) // what is written is told apart by what it is
	case 3:
		write(p.t, root, files{path: content + "*"})
	case 4:
		write(p.t, root, files{path: strings.Repeat("some line of a large file\n", 60_000) + content})
	default:
		write(p.t, root, files{path: content})
	}
}

// fail makes requests fail at random.
func (p *property) fail() {
	random := rand.New(rand.NewPCG(p.random.Uint64(), 2))
	choose := make(chan struct{}, 1) // the generator is for one goroutine at a time
	f := func(*http.Request) fault {
		choose <- struct{}{}
		defer func() { <-choose }()
		switch random.IntN(8) {
		case 0:
			return fault{refuse: true}
		case 1:
			return fault{after: 1 + random.Int64N(3000)}
		case 2:
			return fault{mute: true}
		case 5:
			return fault{half: 1 + random.IntN(3000)}
		case 3, 4:
			return fault{kill: time.Duration(random.IntN(20_000)) * time.Microsecond}
		default:
			return fault{}
		}
	}
	p.fault.Store(&f)
}

// crash syncs while things fail, and ends at a random moment.
func (p *property) crash() {
	p.crashed = true
	p.fail()
	defer p.fault.Store(nil)
	opts := p.options()
	opts.TwoWay = true
	e, err := devsync.Open(opts)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Duration(5+p.random.IntN(100))*time.Millisecond)
	defer cancel()
	_, _ = e.Sync(ctx) // it may fail, that is the point
	e.Close()
	p.kill()
	p.start()
	if p.random.IntN(4) == 0 {
		p.tear()
	}
}

// tear cuts off the end of the client's notes, as a loss of power does.
func (p *property) tear() {
	names, _ := filepath.Glob(filepath.Join(p.state, "*.base"))
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && info.Size() > 0 {
			_ = os.Truncate(name, info.Size()-p.random.Int64N(min(info.Size(), 400)))
			p.torn = true
		}
	}
}

// phase edits both sides while things fail, lets them settle, and checks.
func (p *property) phase() {
	t := p.t
	p.torn, p.crashed = false, false
	var began [2]files
	for side := range 2 {
		p.edits[side], p.ever[side] = files{}, files{}
		began[side] = read(t, p.roots()[side])
	}
	for range 1 + p.random.IntN(4) {
		for side := range 2 {
			for range p.random.IntN(3) {
				p.edit(side)
			}
		}
		if p.random.IntN(3) > 0 {
			p.crash()
		}
	}
	r := p.mustSync(twoWay)
	trees := [2]files{read(t, p.dir), read(t, p.workspace)}
	for side, edits := range p.edits {
		for path, content := range edits {
			if p.crashed && content == "-" {
				// A deletion is no content: where it is not known whether the file had come to
				// the side that lacks it, or the notes of that are lost, it comes again.
				continue
			}
			if _, was := began[side][path]; !was && content == "-" {
				continue // it was made and deleted again: nothing of it is left that the other side could keep
			}
			if got, ok := trees[side][path]; ok && got != content || !ok && content != "-" {
				t.Errorf("%s: %.30q, edited there, is %.30q now", filepath.Join(filepath.Base(p.roots()[side]), path), content, got)
			}
		}
	}
	for path := range with(trees[here], trees[there]) {
		if trees[here][path] != trees[there][path] && !listed(r, path) {
			t.Errorf("%s is %.30q here and %.30q there, and no conflict: %+v", path, trees[here][path], trees[there][path], r)
		}
	}
	for _, c := range r.Conflicts {
		if both := touches(p.ever[here], c.Path) && touches(p.ever[there], c.Path); !p.torn && !both {
			t.Errorf("%s is listed as a conflict (%s), and only one side edited it", c.Path, c.Reason)
		}
	}
	if len(r.Refused) > 0 {
		t.Errorf("refused: %v", r.Refused)
	}
	side := []devsync.Side{devsync.Local, devsync.Remotes}[p.random.IntN(2)]
	r = p.mustSync(func(o *devsync.Options) { o.TwoWay, o.Prefer = true, side })
	if diff := cmp.Diff(read(t, p.dir), read(t, p.workspace)); diff != "" || len(r.Conflicts) > 0 {
		t.Errorf("after preferring the %s side there are %d conflicts, and (-here +there):\n%.2000s", side, len(r.Conflicts), diff)
	}
	entries, err := os.ReadDir(filepath.Dir(p.dir))
	if err != nil || len(entries) != 3 { // the directory, the workspace, the state
		t.Errorf("something is outside of the directories: %v %v", entries, err)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// listed tells whether a report lists a path, or what it is in or what is in it, as a conflict.
func listed(r *devsync.Report, path string) bool {
	for _, c := range r.Conflicts {
		if related(c.Path, path) {
			return true
		}
	}
	return false
}

func touches(edits files, path string) bool {
	for edited := range edits {
		if related(edited, path) {
			return true
		}
	}
	return false
}

func related(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
