// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ringlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	out    = Source{Stream: Stdout, Attempt: 1}
	errs   = Source{Stream: Stderr, Attempt: 1}
	second = Source{Stream: Stdout, Attempt: 2}
	noon   = time.Date(2026, 1, 2, 12, 0, 0, 5, time.UTC)
)

type piece struct {
	src  Source
	text string
}

func ringOf(pieces ...piece) *Ring {
	r := New(0)
	for i, p := range pieces {
		r.Append(p.src, noon.Add(time.Duration(i)*time.Second), []byte(p.text))
	}
	return r
}

// text is what a reader from offset sees at once.
func text(r *Ring, offset int64, streams Stream, timestamps bool) string {
	var (
		rd  = r.Reader(offset, streams)
		t   = Renderer{Timestamps: timestamps}
		b   Batch
		all []byte
	)
	for rd.Fill(&b, math.MaxInt64) {
		all = t.Append(all, &b)
	}
	return string(all)
}

func TestReading(t *testing.T) {
	mixed := []piece{{out, "one\ntwo\n"}, {errs, "oops\n"}, {out, "three\n"}}
	for name, test := range map[string]struct {
		pieces     []piece
		streams    Stream
		offset     int64
		timestamps bool
		want       string
	}{
		"both streams come in the order of writing": {
			pieces: mixed, streams: All, want: "one\ntwo\noops\nthree\n",
		},
		"one stream leaves the other out": {pieces: mixed, streams: Stderr, want: "oops\n"},
		"an offset inside a line gives the rest of the line": {
			pieces: mixed, streams: All, offset: 5, want: "wo\noops\nthree\n",
		},
		"an offset at the end gives nothing": {pieces: mixed, streams: All, offset: 19},
		"a last line without a newline stays without": {
			pieces: []piece{{out, "a\nprompt> "}}, streams: All, want: "a\nprompt> ",
		},
		"the pieces of a line are joined": {
			pieces: []piece{{out, "he"}, {out, "llo\n"}}, streams: All, want: "hello\n",
		},
		"a piece of a line is set apart from another stream": {
			pieces: []piece{{out, "he"}, {errs, "oops\n"}, {out, "llo\n"}}, streams: All, want: "he\noops\nllo\n",
		},
		"a piece of a line is joined when the other stream is left out": {
			pieces: []piece{{out, "he"}, {errs, "oops\n"}, {out, "llo\n"}}, streams: Stdout, want: "hello\n",
		},
		"the last piece of one attempt is set apart from the next attempt": {
			pieces: []piece{{out, "dying"}, {second, "born\n"}}, streams: All, want: "dying\nborn\n",
		},
		"a timestamp stands at the beginning of a line and nowhere else": {
			pieces: []piece{{out, "he"}, {out, "llo\n"}, {errs, "x\n"}}, streams: All, timestamps: true,
			want: "2026-01-02T12:00:00.000000005Z hello\n2026-01-02T12:00:02.000000005Z x\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(ringOf(test.pieces...), test.offset, test.streams, test.timestamps)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTail(t *testing.T) {
	pieces := []piece{{out, "1\n2\n"}, {errs, "e\n"}, {out, "3\n"}, {out, "op"}, {out, "en"}}
	for name, test := range map[string]struct {
		lines   int
		streams Stream
		want    string
	}{
		"none":                               {0, All, ""},
		"an open last line counts":           {1, All, "open"},
		"complete lines before it":           {3, All, "e\n3\nopen"},
		"only lines of the stream count":     {3, Stdout, "2\n3\nopen"},
		"more than there are gives all":      {100, All, "1\n2\ne\n3\nopen"},
		"the other stream may be far behind": {1, Stderr, "e\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := ringOf(pieces...)
			if got := text(r, r.Tail(test.lines, test.streams), test.streams, false); got != test.want {
				t.Errorf("the last %d lines are %q, want %q", test.lines, got, test.want)
			}
		})
	}
}

func TestSinceBeginsAtTheFirstEntryThatIsNotOlder(t *testing.T) {
	r := ringOf(piece{out, "old\n"}, piece{out, "new\n"})
	if got := text(r, r.Since(noon.Add(time.Second)), All, false); got != "new\n" {
		t.Errorf("got %q, want the newer line", got)
	}
	if got := text(r, r.Since(noon.Add(time.Hour)), All, false); got != "" {
		t.Errorf("got %q, want nothing from the future", got)
	}
}

func TestSlowReaderFindsOneGapOfTheRightSize(t *testing.T) {
	r := New(MinCapacity)
	line := []byte(strings.Repeat("x", 999) + "\n")
	rd := r.Reader(0, All)
	for range 1000 {
		r.Append(out, noon, line)
	}
	var b Batch
	var got, lost, gaps int64
	for rd.Fill(&b, math.MaxInt64) {
		if b.Lost > 0 {
			gaps++
		}
		lost += b.Lost
		for _, e := range b.Entries {
			got += int64(len(e.Data))
		}
	}
	if gaps != 1 || lost == 0 || got+lost != 1_000_000 {
		t.Errorf("%d gaps of %d bytes and %d bytes read; want one gap, and 1000000 together", gaps, lost, got)
	}
	if text := text(r, 0, All, false); !strings.HasPrefix(text, fmt.Sprintf("[sandbar: gap, %d bytes", lost)) {
		t.Errorf("the text begins with %.60q, want the gap line", text)
	}
}

func TestMemoryIsBoundedWhenLinesAreEmpty(t *testing.T) {
	r := New(MinCapacity)
	for range 100 {
		r.Append(out, noon, bytes.Repeat([]byte{'\n'}, MaxEntryBytes))
	}
	if most := MinCapacity/entryOverhead + 1; r.count > most {
		t.Errorf("the ring keeps %d entries, want at most %d", r.count, most)
	}
	if len(r.entries) > 2*MinCapacity/entryOverhead {
		t.Errorf("the queue of entries grew to %d places", len(r.entries))
	}
}

func TestEveryReaderHasEveryByteOnceOrAGap(t *testing.T) {
	const lines, readers = 20_000, 8
	r := New(MinCapacity)
	end := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range readers {
		rd := r.Reader(0, All)
		wg.Go(func() {
			var b Batch
			var at int64
			for {
				for rd.Fill(&b, math.MaxInt64) {
					at += b.Lost
					for _, e := range b.Entries {
						if e.Offset != at {
							t.Errorf("an entry is at offset %d, want %d", e.Offset, at)
							return
						}
						if want := fmt.Sprintf("%015d\n", at/16); string(e.Data) != want {
							t.Errorf("the entry at %d is %q, want %q", at, e.Data, want)
							return
						}
						at += int64(len(e.Data))
					}
				}
				if rd.Wait(ctx) != nil {
					break
				}
			}
			if at != lines*16 {
				t.Errorf("a reader ended at %d, want %d", at, lines*16)
			}
		})
	}
	go func() {
		defer close(end)
		for i := range lines {
			r.Append(out, noon, fmt.Appendf(nil, "%015d\n", i))
		}
	}()
	<-end
	cancel()
	wg.Wait()
}

func TestWaitEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(0).Reader(0, All).Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait returned %v, want the context's error", err)
	}
}

func TestDrainTakesALineOfTenMegabytesWithoutANewline(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r := New(16 << 20)
	drained := make(chan error, 1)
	go func() { drained <- r.Drain(out, read) }()
	long := bytes.Repeat([]byte("0123456789"), 1<<20)
	// This write ends only if the pipe is drained all the while.
	if _, err := write.Write(long); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(write, "\nafter\n"); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	if got := text(r, 0, All, false); got != string(long)+"\nafter\n" {
		t.Errorf("%d bytes came out, want the %d that went in", len(got), len(long)+7)
	}
}

// The pipe here is one of memory: its deadlines keep the bubble's time.
func TestDrainHoldsAPieceOfALineForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := net.Pipe()
		r := New(0)
		drained := make(chan error, 1)
		go func() { drained <- r.Drain(out, read) }()
		next := func() int64 {
			synctest.Wait()
			_, next := r.Bounds()
			return next
		}
		_, _ = io.WriteString(write, "line\nprom")
		if got := next(); got != 5 {
			t.Errorf("%d bytes are in the log at first, want the whole line of 5", got)
		}
		time.Sleep(partialDelay - time.Millisecond)
		if got := next(); got != 5 {
			t.Errorf("%d bytes are in the log before the delay, want 5", got)
		}
		time.Sleep(2 * time.Millisecond)
		if got := next(); got != 9 {
			t.Errorf("%d bytes are in the log after the delay, want 9", got)
		}
		_, _ = io.WriteString(write, "pt> ")
		_ = write.Close()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if got := text(r, 0, All, false); got != "line\nprompt> " {
			t.Errorf("the text is %q", got)
		}
	})
}

func BenchmarkAppendAndRead(b *testing.B) {
	line := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 600)
	r := New(DefaultCapacity)
	rd := r.Reader(0, All)
	var batch Batch
	var render Renderer
	var text []byte
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r.Append(out, noon, line)
		for rd.Fill(&batch, math.MaxInt64) {
			text = render.Append(text[:0], &batch)
		}
	}
}
