// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// comingBody is a body that comes in parts, and tells how much was read at once.
type comingBody struct {
	parts []int
	read  []int
}

func (b *comingBody) Read(p []byte) (int, error) {
	b.read = append(b.read, len(p))
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	n := min(b.parts[0], len(p))
	for i := range n {
		p[i] = 'x'
	}
	if b.parts[0] -= n; b.parts[0] == 0 {
		b.parts = b.parts[1:]
	}
	return n, nil
}

func (*comingBody) Close() error { return nil }

func TestAnAnswerThatIsWaitedForHoldsLittle(t *testing.T) {
	const few = 9
	for name, c := range map[string]struct {
		length      int64
		parts, want []int
	}{
		"events":                {-1, []int{few, few}, []int{littlePart, littlePart, littlePart}},
		"much, and then events": {-1, []int{littlePart + largePart, few, few}, []int{littlePart, largePart, largePart, littlePart, littlePart}},
		"little of a length":    {few, []int{few}, []int{littlePart, littlePart}},
		"much of a length":      {2 * largePart, []int{2 * largePart}, []int{largePart, largePart, largePart}},
		"a length, by and by":   {largePart, []int{few, largePart - few}, []int{largePart, littlePart, largePart, largePart}},
		"a length, by 4 KiB":    {largePart, []int{4 << 10, largePart - 4<<10}, []int{largePart, largePart, largePart}},
	} {
		t.Run(name, func(t *testing.T) {
			all := 0
			for _, n := range c.parts {
				all += n
			}
			body, answer := &comingBody{parts: c.parts}, httptest.NewRecorder()
			x := &exchange{Context: t.Context(), w: answer}
			if err := x.copyBody(&http.Response{ContentLength: c.length, Body: body}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(body.read, c.want) {
				t.Errorf("read at once are %v, want %v", body.read, c.want)
			}
			if !bytes.Equal(answer.Body.Bytes(), bytes.Repeat([]byte("x"), all)) {
				t.Errorf("of %d bytes %d are passed on", all, answer.Body.Len())
			}
		})
	}
}

// Each part of an answer is with its client before the proxy waits for the next.
func TestNothingOfAnAnswerIsKeptWhileTheRestIsWaitedFor(t *testing.T) {
	for _, n := range []int{1, littlePart - 1, littlePart, littlePart + 1} {
		body := &comingBody{parts: []int{1, n}}
		out := &flushed{ResponseRecorder: httptest.NewRecorder()}
		x := &exchange{Context: t.Context(), w: out}
		if err := x.copyBody(&http.Response{ContentLength: largePart, Body: body}); err != nil {
			t.Fatal(err)
		}
		if out.kept != 0 {
			t.Errorf("of a part of %d bytes %d are kept", n, out.kept)
		}
	}
}

// flushed knows how much was not flushed.
type flushed struct {
	*httptest.ResponseRecorder
	kept int
}

func (f *flushed) Write(p []byte) (int, error) {
	f.kept += len(p)
	return f.ResponseRecorder.Write(p) //nolint:wrapcheck // a pass-through
}

func (f *flushed) FlushError() error {
	f.kept = 0
	return nil
}
