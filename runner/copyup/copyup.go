// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package copyup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	copywire "github.com/sandbar-dev/sandbar/apis/wire/copy"
)

// TerminationLog is where Kubernetes reads a container's termination message, unless the pod names another file.
const TerminationLog = "/dev/termination-log"

// Options say what is copied.
type Options struct {
	// Source is the directory that is copied, absolute.
	Source string
	// Target is the volume: the runner's SANDBAR_VOLUME, whose directory .sandbar-workspace gets the files.
	Target string
	// Progress gets a line each two seconds. Default: none.
	Progress io.Writer
	// Limits bound the tree. Default: those of [DefaultLimits].
	Limits Limits

	// before is called ahead of each step that changes the disk, in tests.
	before func(step string)
}

// Run copies, and returns how that ended. It copies nothing to a volume that has the files of an earlier copy.
func Run(ctx context.Context, o Options) copywire.Result {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	start := time.Now()
	c := &attempt{Options: o, tally: &tally{}}
	err := c.followed(ctx)
	result := c.tally.sum()
	result.Reason, result.Message = c.outcome(err)
	result.Seconds = math.Round(time.Since(start).Seconds()*100) / 100
	return result
}

// Report writes a result to the file where Kubernetes reads it, which exists in a container. Elsewhere nothing is written.
func Report(path string, r copywire.Result) error {
	text, err := r.Encode()
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		_, err = unix.Write(fd, text)
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("writing the termination message: %w", err)
	}
	return nil
}

// attempt is one call of Run.
type attempt struct {
	Options
	tally  *tally
	survey survey
	// already is set when an earlier copy was found.
	already bool
}

// followed runs the copy and writes its progress meanwhile.
func (c *attempt) followed(ctx context.Context) error {
	if c.Progress != nil {
		var following sync.WaitGroup
		defer following.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		following.Go(func() { c.tally.follow(ctx, c.Progress) })
	}
	return c.run(ctx)
}

// run is the copy, step by step.
func (c *attempt) run(ctx context.Context) error {
	target, err := openTarget(c.Target, c.before)
	if err != nil {
		return err
	}
	defer target.close()
	if c.already, err = target.marked(); err != nil {
		return err
	}
	if c.already {
		return finish(target)
	}
	if err := target.empty(); err != nil {
		return err
	}
	source, st, err := openSource(c.Source, target)
	if err != nil {
		return err
	}
	defer source.close()
	if err := target.prepare(); err != nil {
		return err
	}
	staging, err := target.begin(ctx, c.Limits)
	if err != nil {
		return err
	}
	defer staging.close()
	if err := c.fill(ctx, source, st, target, staging); err != nil {
		return err
	}
	_, message := c.outcome(nil)
	if err := target.commit(ctx, staging, []byte(message+"\n")); err != nil {
		return err
	}
	return target.place()
}

// finish moves a complete copy into its place, which the attempt that made it may not have done.
func finish(target *target) error {
	if err := target.prepare(); err != nil {
		return err
	}
	return target.place()
}

// fill counts what there is, checks that it fits, and copies it to staging.
func (c *attempt) fill(ctx context.Context, source folder, st unix.Statx_t, target *target, staging folder) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(target.top.fd, &fs); err != nil {
		return fmt.Errorf("asking the volume for its block size: %w", err)
	}
	own, err := staging.self()
	if err != nil {
		return fmt.Errorf("looking at the copy: %w", err)
	}
	newWalk := func() *walk { return &walk{limits: c.Limits, skip: []inode{target.id, inodeOf(&own)}} }
	c.survey = survey{limits: c.Limits, block: max(fs.Bsize, 1), linked: map[inode]int32{}}
	if err := c.survey.take(ctx, newWalk(), source, st); err != nil {
		return fmt.Errorf("%s: %w", c.Source, err)
	}
	if err := c.survey.fits(target.top, c.Source); err != nil {
		return err
	}
	c.tally.totalBytes.Store(c.survey.bytes)
	c.tally.totalFiles.Store(c.survey.files)
	files := &copier{limits: c.Limits, tally: c.tally, root: staging, linked: c.survey.linked, first: map[inode]string{}}
	if err := files.run(ctx, newWalk(), source, st); err != nil {
		return fmt.Errorf("%s: %w", c.Source, err)
	}
	return nil
}

// outcome is the reason of a result and its words.
func (c *attempt) outcome(err error) (copywire.Reason, string) {
	var refused *refusal
	switch {
	case err == nil && c.already:
		return copywire.AlreadyCopied, "the volume has the files of an earlier copy; nothing was changed"
	case err == nil:
		return copywire.Copied, c.words()
	case errors.As(err, &refused):
		return refused.reason, err.Error()
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return copywire.VolumeTooSmall, fmt.Sprintf("the files below %s are %s, and the volume was full after %s (%v): ask for a larger volume",
			c.Source, size(c.survey.need), size(c.tally.bytes.Load()), err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return copywire.Stopped, "it was told to end before all was copied; the next try begins from the start"
	default:
		return copywire.CopyFailed, err.Error()
	}
}

// words says what was copied and what was not.
func (c *attempt) words() string {
	r := c.tally.sum()
	parts := []string{fmt.Sprintf("copied %d files of %s (%s)", r.Files, c.Source, size(r.Bytes))}
	if n := r.Skipped; n > 0 {
		parts = append(parts, fmt.Sprintf("left out %d sockets, FIFOs, devices and mounts", n))
	}
	if n := r.Unreadable; n > 0 {
		parts = append(parts, fmt.Sprintf("could not read %d", n))
	}
	return strings.Join(parts, "; ")
}
