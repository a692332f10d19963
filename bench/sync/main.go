// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command sync measures how long it takes until a file that was saved is in place in a sandbox:
// through Sandbar, as a person uses it, next to mutagen and to tar through the exec of the pod,
// in turns. docs/performance-details.md says where clocks start and stop.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandbar-dev/sandbar/bench/stage"
)

// options are what the flags say.
type options struct {
	turns, edits     int
	cold, files      int
	checkout, larges int
	idle             time.Duration
	skip             string
}

func main() {
	var o options
	flag.IntVar(&o.turns, "turns", 3, "how many turns")
	flag.IntVar(&o.edits, "n", 60, "edits of each subject and turn")
	flag.IntVar(&o.cold, "cold", 3, "edits of other files of the tree, of each subject and turn")
	flag.IntVar(&o.files, "files", 5000, "files of the tree")
	flag.IntVar(&o.checkout, "checkout", 3000, "files of a checkout")
	flag.IntVar(&o.larges, "large", 1, "changes of 50 MB files of each subject and turn; 0 leaves them out")
	flag.DurationVar(&o.idle, "idle", 5*time.Second, "how long nothing happens")
	flag.StringVar(&o.skip, "skip", "", "subjects to leave out, with commas between them")
	stage.Main("sync", func(ctx context.Context, stack, results string) error { return run(ctx, stack, results, o) })
}

func run(ctx context.Context, stack, results string, o options) error {
	s, err := stage.New(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	person, err := s.Person(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = person.Close() }()
	runner, err := s.Runner(ctx)
	if err != nil {
		return err
	}
	subjects, err := prepare(ctx, s, person, runner, o)
	if err != nil {
		return err
	}
	samples := map[string][]float64{}
	edits := 0
	for turn := range o.turns {
		for _, subject := range subjects {
			fmt.Fprintf(os.Stderr, "turn %d of %d: %s\n", turn+1, o.turns, subject.name)
			m := &measurement{subject: subject, edits: &edits, took: func(key string, value float64) {
				samples[subject.name+"/"+key] = append(samples[subject.name+"/"+key], value)
			}}
			if err := m.turn(ctx, person.Home, o); err != nil {
				return err
			}
		}
	}
	if samples["sandbar/runner_mib"], err = peak(runner); err != nil {
		return err
	}
	return writeResults(results, o, samples)
}

func peak(runner *stage.Runner) ([]float64, error) {
	mib, err := stage.Memory(runner.PID, "VmHWM")
	return []float64{mib}, err
}

// turn is all that is measured of one subject, once.
func (m *measurement) turn(ctx context.Context, home string, o options) (err error) {
	began := time.Now()
	if m.run, err = m.begin(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.run.stop()) }()
	m.took("start_ms", time.Since(began).Seconds()*1000)
	if m.name == "mutagen-poll" {
		return m.cold(ctx, 2*o.cold, o.files)
	}
	if err := m.again(ctx, o.edits, o.files); err != nil {
		return err
	}
	if err := m.cold(ctx, o.cold, o.files); err != nil {
		return err
	}
	if err := m.idle(ctx, o.idle); err != nil {
		return err
	}
	if o.checkout > 0 {
		if err := m.checkout(ctx, filepath.Join(home, "prepared"), checkout(o.checkout)); err != nil {
			return err
		}
	}
	for range o.larges {
		for _, newlines := range []bool{true, false} {
			file := bigLine
			if newlines {
				file = bigLines
			}
			if err := m.large(ctx, file, newlines); err != nil {
				return err
			}
		}
	}
	return nil
}

// byTar is where tar's files go, beside those of Sandbar.
const byTar = "by-tar"

// prepare makes the subjects and their trees.
func prepare(ctx context.Context, s *stage.Stage, person *stage.Person, runner *stage.Runner, o options) ([]*subject, error) {
	program := filepath.Join(filepath.Dir(person.Program), "mutagen")
	build := exec.CommandContext(ctx, "go", "-C", "hack/stack/mutagen", "build", "-trimpath", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building mutagen: %w\n%s", err, out)
	}
	subjects := []*subject{
		{name: "sandbar", destination: runner.Workspace, start: sandbar(person, runner)},
		{name: "mutagen", start: mutagen(program, person.Home, "portable")},
		{name: "mutagen-poll", start: mutagen(program, person.Home, "force-poll")},
		{name: "tar", destination: filepath.Join(runner.Workspace, byTar)},
	}
	if err := os.Mkdir(filepath.Join(person.Home, "to"), 0o755); err != nil {
		return nil, err
	}
	kept := subjects[:0]
	files := tree(o.files, o.larges > 0)
	for _, subject := range subjects {
		if slices.Contains(strings.Split(o.skip, ","), subject.name) {
			continue
		}
		kept = append(kept, subject)
		subject.source = filepath.Join(person.Home, "from", subject.name)
		if subject.destination == "" {
			subject.destination = filepath.Join(person.Home, "to", subject.name)
		}
		if err := write(subject.source, files); err != nil {
			return nil, err
		}
		if subject.name != "tar" {
			continue
		}
		// What tar writes is none of Sandbar's business; it comes into the same volume.
		if err := os.Mkdir(subject.destination, 0o777); err != nil {
			return nil, err
		}
		if err := os.Chmod(subject.destination, 0o777); err != nil { // the pod is another user
			return nil, err
		}
		var err error
		if subject.carry, err = throughTar(s, runner, subject.source, "/workspace/"+byTar); err != nil {
			return nil, err
		}
		if err := subject.carry(ctx, "."); err != nil {
			return nil, err
		}
	}
	return kept, nil
}
