// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheEndOfACommandIsWhatTheScriptSays(t *testing.T) {
	success := message(3, `{"status":"Success"}`)
	for name, c := range map[string]struct {
		answer []byte
		want   string
		err    error
	}{
		"it was gone":            {join(message(1, ""), message(1, "gone\n"), success), Gone, nil},
		"it ended":               {join(message(1, "en"), appendMessage(nil, 9), message(1, "ded\n"), success), Ended, nil},
		"it was killed":          {join(message(1, "killed\n"), success), Killed, nil},
		"it was meant to stay":   {join(message(1, "kept\n"), success), Kept, nil},
		"something else":         {join(message(1, "rm -rf /\n"), success), Failed, errNoAnswer},
		"nothing":                {success, Failed, errNoAnswer},
		"too much":               {message(1, strings.Repeat("x", maxAnswer+1)), Failed, errNoAnswer},
		"that it failed":         {join(message(1, "ended\n"), message(3, `{"status":"Failure"}`)), Failed, errNoAnswer},
		"a status that is none":  {join(message(1, "ended\n"), message(3, `{`)), Failed, errNoAnswer},
		"a connection that ends": {message(1, "ended\n"), Failed, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := End(t.Context(), Process{pid: 7, start: 8, tty: true}, func(_ context.Context, command []string) (io.ReadCloser, error) {
				if want := []string{"sandbar", "7", "8", "HUP", "20"}; !slices.Equal(command[3:], want) {
					t.Errorf("it runs %q, want %q", command[3:], want)
				}
				return io.NopCloser(bytes.NewReader(c.answer)), nil
			})
			if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("got %q (%v), want %q (%v)", got, err, c.want, c.err)
			}
		})
	}
	t.Run("a pod that says nothing is not waited for for ever", func(t *testing.T) {
		ours, _ := pipe(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if got, err := End(ctx, Process{pid: 7}, func(context.Context, []string) (io.ReadCloser, error) { return ours, nil }); got != Failed || err == nil {
			t.Errorf("got %q (%v)", got, err)
		}
	})
	t.Run("an API server that refuses", func(t *testing.T) {
		refused := errors.New("refused")
		if got, err := End(t.Context(), Process{pid: 7}, func(context.Context, []string) (io.ReadCloser, error) { return nil, refused }); got != Failed || !errors.Is(err, refused) {
			t.Errorf("got %q (%v)", got, err)
		}
	})
}

// FuzzEnding holds what is found in pieces to what is found in whole messages.
func FuzzEnding(f *testing.F) {
	f.Add(join(message(1, "out"), message(3, "x")), 3)
	f.Add(appendMessage(nil, opBinary, make([]byte, 70000)...), 1)
	f.Add([]byte{0x89, 1, 3, 0x82, 1, 3}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		want := false
		for rest := stream; ; {
			one, after, ok := nextFrame(rest)
			if !ok {
				// Of the last one a part may be there, its channel among it.
				h, ok := readHeader(rest)
				want = want || ok && !h.isControl() && h.op != opContinuation && h.payload > 0 && len(rest) > h.size && rest[h.size] == 3
				break
			}
			want = want || !one.isControl() && one.op != opContinuation && len(one.data) > 0 && one.data[0] == 3
			rest = after
		}
		var e ending
		for piece := range slices.Chunk(stream, max(1, size)) {
			e.add(piece)
		}
		if e.seen != want {
			t.Errorf("%x in pieces of %d: seen %v, want %v", stream, size, e.seen, want)
		}
	})
}
