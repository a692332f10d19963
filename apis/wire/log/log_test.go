// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package logwire_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	logwire "github.com/sandbar-dev/sandbar/apis/wire/log"
)

func TestARecordComesBackAsItWas(t *testing.T) {
	ascii := make([]byte, 128)
	for i := range ascii {
		ascii[i] = byte(i)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for name, r := range map[string]logwire.Record{
		"a line":               {Offset: 7, Time: at, Stream: "stdout", Attempt: 1, Data: []byte("héllo\n")},
		"bytes, not UTF-8":     {Offset: 7, Time: at, Stream: "stderr", Attempt: 2, Data: []byte{0xff, 0, '\n'}},
		"half a character":     {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("x\xc3")},
		"a literal U+FFFD":     {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("\ufffd")},
		"control characters":   {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("\x1b[2J\x00")},
		"all of ASCII":         {Time: at, Stream: "stdout", Attempt: 2, Data: ascii},
		"a gap":                {Offset: 9, Lost: 12},
		"separators, brackets": {Time: at, Stream: "stdout", Attempt: 2, Data: []byte("\u2028<&>")},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var got logwire.Record
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, got); diff != "" || got.Next() != r.Offset+int64(len(r.Data)) {
				t.Errorf("%s (-want +got):\n%s", line, diff)
			}
			if bytes.ContainsRune(line, '\n') {
				t.Errorf("the record is more than a line: %s", line)
			}
		})
	}
}

// The quick way to read a record never says anything else than package json does.
func FuzzARecordIsReadAsPackageJSONReadsIt(f *testing.F) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, data := range []string{"a line\n", "\\\"\x1b[1m\t", "h\u00e9llo \u2028", "\\", ""} {
		r := logwire.Record{Offset: 7, Time: at, Stream: "stdout", Attempt: 1, Data: []byte(data)}
		f.Add(r.AppendJSON(nil))
	}
	f.Add([]byte(`{"offset":07,"time":"2026-01-02T03:04:05Z","stream":"stdout","attempt":1,"text":"x"}`))
	f.Add([]byte(`{"offset":7,"time":"2026-01-02T03:04:05,5Z","stream":"stderr","attempt":4294967296,"text":"\ud800"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var in struct {
			Offset  int64     `json:"offset"`
			Time    time.Time `json:"time"`
			Stream  string    `json:"stream"`
			Attempt uint32    `json:"attempt"`
			Text    string    `json:"text"`
			Data    []byte    `json:"data"`
			Lost    int64     `json:"lost"`
		}
		plain := json.Unmarshal(line, &in)
		got, err := logwire.Parse(line)
		if (err == nil) != (plain == nil) {
			t.Fatalf("%q: %v, and package json says %v", line, err, plain)
		}
		if err != nil {
			return
		}
		data := in.Data
		if in.Text != "" {
			data = []byte(in.Text)
		}
		if !bytes.Equal(got.Data, data) || got.Offset != in.Offset || !got.Time.Equal(in.Time) || got.Stream != in.Stream || got.Attempt != in.Attempt || got.Lost != in.Lost {
			t.Fatalf("%q is read as %+v, and by package json as %+v", line, got, in)
		}
	})
}

// What a line of 200 bytes costs on either side.
func BenchmarkRecord(b *testing.B) {
	r := logwire.Record{Offset: 1 << 30, Time: time.Now(), Stream: "stdout", Attempt: 1, Data: append(bytes.Repeat([]byte("x"), 199), '\n')}
	b.Run("write", func(b *testing.B) {
		b.SetBytes(int64(len(r.Data)))
		var line []byte
		for b.Loop() {
			line = r.AppendJSON(line[:0])
		}
	})
	b.Run("read", func(b *testing.B) {
		line := r.AppendJSON(nil)
		b.SetBytes(int64(len(r.Data)))
		for b.Loop() {
			if _, err := logwire.Parse(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}
