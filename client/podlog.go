// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// The log of a pod without a runner has no offsets. Each line has the time at which the node took it, so
// that a reader whose connection breaks goes on behind the last line it has. The log of a container ends
// with the container, and the next one begins a log of its own, whose lines are later.

const (
	// kubeletTime is the layout before each line when timestamps are asked for. Its fraction has nine digits
	// always: an app that writes times of its own into its lines seldom writes such ones.
	kubeletTime = "2006-01-02T15:04:05.000000000Z07:00"
	// clockSkew is how far the clocks of this machine and of the node may differ when a log is read again
	// from a time on. Lines that come twice for it are left out.
	clockSkew = 5 * time.Minute
	// endedFor bounds the wait for the instance's word of how a container ended, and endedEvery is how
	// often it is read meanwhile. A word that stays what it was is that of an end like the one before.
	endedFor   = 3 * time.Second
	endedEvery = 250 * time.Millisecond
)

// kubeletGone are the beginnings of what the kubelet writes in the place of a log whose container is gone: with the code
// 200, and without the time that each line of a log has.
var kubeletGone = [][]byte{[]byte("unable to retrieve container logs for "), []byte("failed to try resolving symlinks in path ")}

// errEnded means that the container whose log was read has ended.
var errEnded = errors.New("the container ended")

// podLog is how far the log of a pod was read.
type podLog struct {
	// timed is true from when a line had its time: only then can the log be resumed.
	timed bool
	// told: that the container ended was told, and nothing of the next one came yet.
	told bool
	// why is what the condition Ready said, while it was not true, when it was read last.
	why string
	// last is the time of the last line, and same counts the lines that had it. Of the last one, part bytes
	// came, which is all of it if it is complete.
	last       time.Time
	same, part int
	complete   bool

	// Of this connection: how many lines had the time last, whether the present line was there before, and
	// how many of its bytes were.
	seen, skip int
	drop       bool
}

// plain reads the log of a pod that has no runner, line by line.
func (f *follow) plain(ctx context.Context, body io.Reader) error {
	f.began = true
	if !f.pod.told {
		if err := f.emit(LogEvent{Type: LogConnected}); err != nil {
			return err
		}
	}
	f.pod.seen, f.pod.skip, f.pod.drop = 0, 0, false
	in := bufio.NewReaderSize(body, logwire.MaxRecordBytes)
	begins := true // a line, and not the rest of one that is longer than the buffer
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			switch err := f.podLine(line, begins); {
			case errors.Is(err, errEnded):
				return f.containerEnded(ctx)
			case err != nil:
				return err
			}
			begins = line[len(line)-1] == '\n'
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && !f.opts.Follow:
			return nil
		case !f.opts.Follow || !f.pod.timed:
			return ErrLogCut
		case errors.Is(err, io.EOF):
			return f.containerEnded(ctx)
		default:
			return fmt.Errorf("reading a line: %w", err)
		}
	}
}

// podLine takes a line, or a piece of one. The error is errEnded for what the kubelet says of a container that is gone.
func (f *follow) podLine(line []byte, begins bool) error {
	p, at := &f.pod, time.Time{}
	if begins {
		p.drop, p.skip = false, 0
		if stamp, rest, ok := stamped(line); ok && f.asksTimes() {
			line, at = rest, stamp
			p.begin(at)
		} else if f.opts.Follow && slices.ContainsFunc(kubeletGone, func(words []byte) bool { return bytes.HasPrefix(line, words) }) {
			return errEnded
		}
	}
	if p.drop {
		return nil
	}
	had := min(p.skip, len(line))
	line, p.skip = line[had:], p.skip-had
	if len(line) == 0 {
		return nil
	}
	p.part, p.complete = p.part+len(line), line[len(line)-1] == '\n'
	if p.told {
		p.told = false
		if err := f.emit(LogEvent{Type: LogConnected}); err != nil {
			return err
		}
	}
	f.tries.reset()
	return f.emit(LogEvent{Type: LogOutput, Record: logwire.Record{Time: at, Data: bytes.Clone(line)}})
}

// begin finds out whether a line that begins was there before.
func (p *podLog) begin(at time.Time) {
	p.timed = true
	if at.Before(p.last) {
		p.drop = true
		return
	}
	if at.After(p.last) {
		p.last, p.same, p.seen = at, 0, 0
	}
	switch p.seen++; {
	case p.seen > p.same:
		p.same, p.part, p.complete = p.seen, 0, false
	case p.seen == p.same && !p.complete:
		p.skip = p.part
	default:
		p.drop = true
	}
}

// stamped takes the time from a line that begins with one as the kubelet writes it.
func stamped(line []byte) (at time.Time, rest []byte, ok bool) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(stamp) < len("2006-01-02T15:04:05.000000000Z") {
		return at, line, false
	}
	at, err := time.Parse(kubeletTime, string(stamp))
	return at, rest, err == nil
}

// asksTimes reports whether the log is asked for with times.
func (f *follow) asksTimes() bool { return f.opts.Follow || f.opts.Timestamps }

// podSince is the age from which on a log is read again.
func (p *podLog) podSince(now time.Time) time.Duration {
	return max(now.Sub(p.last), 0) + clockSkew
}

// containerEnded tells that a container ended, once until something comes of the next one.
func (f *follow) containerEnded(ctx context.Context) error {
	if !f.pod.told {
		f.pod.told = true
		f.pod.why = f.instance.whyNotReady(ctx, f.pod.why)
		// The container's last words were read here, as lines.
		why, _, _ := strings.Cut(f.pod.why, " "+sandbarv1alpha1.LastWordsMark)
		if err := f.emit(LogEvent{Type: LogEnded, Message: strings.TrimSuffix(why, ".")}); err != nil {
			return err
		}
	}
	return errEnded
}

// whyNotReady is what the instance's condition Ready says while it is not true; empty if it stays true, or
// cannot be read. A container's end is seen in it a moment later: until then it is true, or says before, which
// is of an earlier end.
func (i *Instance) whyNotReady(ctx context.Context, before string) string {
	if i.status == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, endedFor)
	defer cancel()
	why := ""
	for {
		if status, err := i.status(ctx); err == nil {
			if why = notReady(status); why != "" && why != before {
				return why
			}
		}
		if pause.For(ctx, endedEvery) != nil {
			return why
		}
	}
}

// notReady is what the condition Ready says while it is not true; empty if it is, or is not there.
func notReady(status *sandbarv1alpha1.InstanceStatus) string {
	ready := apimeta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return strings.TrimSpace(ready.Message)
}
