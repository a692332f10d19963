// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var digest = strings.Repeat("0a", 32)

// collect decodes a batch; data frames become their bytes.
func collect(r io.Reader) (frames []Frame, data string, err error) {
	d := NewDecoder(r)
	for {
		f, err := d.Next()
		if errors.Is(err, io.EOF) {
			return frames, data, nil
		}
		if err != nil {
			return frames, data, err
		}
		frames = append(frames, f)
		if f.Op == OpData {
			p, err := io.ReadAll(d)
			if err != nil {
				return frames, data, err
			}
			data += string(p)
		}
	}
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	var out bytes.Buffer
	revision, yes := int64(7), true
	e := NewEncoder(&out, &revision, "auto")
	want := []Frame{{Op: OpBegin, Version: Version, Revision: &revision, Restart: "auto"}}
	add := func(f Frame) {
		want = append(want, f)
		switch f.Op {
		case OpData:
			_ = e.Data([]byte("he\nllo")[:f.Length])
		case OpCopy:
			_ = e.Copy(f.Path, f.Offset, f.Length)
		default:
			_ = e.Entry(f)
		}
	}
	add(Frame{Op: OpFile, Path: "a\"b", Size: 9, Digest: digest, Executable: &yes, Expect: &Entry{Type: None}})
	add(Frame{Op: OpData, Length: 6})
	add(Frame{Op: OpCopy, Path: "old", Offset: 4, Length: 3})
	add(Frame{Op: OpFile, Path: "empty", Digest: digest})
	add(Frame{Op: OpSymlink, Path: "l", Target: "a"})
	add(Frame{Op: OpDir, Path: "d"})
	add(Frame{Op: OpDelete, Path: "x", Recursive: true, Expect: &Entry{Type: File, Digest: digest}})
	if err := e.End(); err != nil {
		t.Fatal(err)
	}
	want = append(want, Frame{Op: OpEnd, Entries: 5})
	frames, data, err := collect(&out)
	if diff := cmp.Diff(want, frames); diff != "" || err != nil || data != "he\nllo" {
		t.Errorf("data %q, error %v, frames (-want +got):\n%s", data, err, diff)
	}
}

func TestAFileThatIsNotWholeIsNotEncoded(t *testing.T) {
	e := NewEncoder(io.Discard, nil, "")
	_ = e.Entry(Frame{Op: OpFile, Path: "a", Size: 2, Digest: digest})
	_ = e.Data([]byte("x"))
	if err := e.End(); err == nil {
		t.Error("a file without its last byte was taken")
	}
}

func TestBatchesThatAreRefused(t *testing.T) {
	const begin, end = `{"op":"begin","version":1}` + "\n", `{"op":"end","entries":1}` + "\n"
	file := `{"op":"file","path":"a","size":3,"digest":"` + digest + `"}` + "\n"
	stage := `{"op":"stage","digest":"` + digest + `","size":9,"offset":4,"length":3}` + "\n" + `{"op":"data","length":3}` + "\n"
	for name, body := range map[string]string{
		"nothing":                               "",
		"no begin":                              `{"op":"dir","path":"a"}` + "\n",
		"another version":                       `{"op":"begin","version":2}` + "\n",
		"no end":                                begin,
		"a second begin":                        begin + begin,
		"a line that is cut":                    begin + `{"op":"end"`,
		"data that is cut":                      begin + file + `{"op":"data","length":3}` + "\nab",
		"more data than the file has":           begin + file + `{"op":"data","length":4}` + "\nabcd" + end,
		"data of no length":                     begin + file + `{"op":"data"}` + "\n",
		"data of negative length":               begin + file + `{"op":"data","length":-1}` + "\n",
		"a copy from before the beginning":      begin + file + `{"op":"copy","path":"b","offset":-1,"length":3}` + "\n" + end,
		"data of no file":                       begin + `{"op":"data","length":1}` + "\nx",
		"the end inside a file":                 begin + file + end,
		"a file inside a file":                  begin + file + file,
		"a count that does not fit":             begin + `{"op":"end","entries":1}` + "\n",
		"something after the end":               begin + `{"op":"end"}` + "\nx",
		"an operation that is none":             begin + `{"op":"chmod","path":"a"}` + "\n",
		"a field that is none":                  begin + `{"op":"dir","path":"a","mode":511}` + "\n",
		"two frames on a line":                  begin + `{"op":"dir","path":"a"}{"op":"dir","path":"b"}` + "\n",
		"a line without end":                    begin + strings.Repeat("x", MaxFrameBytes+1),
		"a negative size":                       begin + strings.Replace(file, "3", "-3", 1),
		"no digest":                             begin + `{"op":"file","path":"a","size":3}` + "\n",
		"a digest in capitals":                  begin + strings.Replace(file, "0a", "0A", 1),
		"an expectation of a type that is none": begin + `{"op":"dir","path":"a","expect":{"type":"disk"}}` + "\n",
		"an expectation of any file":            begin + `{"op":"dir","path":"a","expect":{"type":"file"}}` + "\n",
		"a stage frame in a batch":              begin + `{"op":"dir","path":"a"}` + "\n" + stage + "abc" + end,
		"a batch behind a stage frame":          begin + stage + "abc" + `{"op":"dir","path":"a"}` + "\n" + `{"op":"end","entries":2}` + "\n",
		"a part that is cut":                    begin + stage + "ab",
		"a part with less than it says":         begin + strings.Replace(stage, `"length":3}`, `"length":4}`, 1) + "abc" + end,
		"a part behind the end":                 begin + strings.Replace(stage, `"size":9`, `"size":6`, 1) + "abc" + end,
		"a part of another beginning":           begin + strings.Replace(stage, `"offset":4`, `"offset":-4`, 1) + "abc" + end,
		"a part that overflows":                 begin + strings.Replace(stage, `"offset":4`, `"offset":9223372036854775807`, 1) + "abc" + end,
		"a part of nothing":                     begin + strings.Replace(stage, `"size":9,`, "", 1) + "abc" + end,
		"pieces behind staged content":          begin + strings.Replace(file, `"size"`, `"staged":true,"size"`, 1) + `{"op":"data","length":3}` + "\nabc" + end,
		"a name that is not UTF-8":              begin + "{\"op\":\"dir\",\"path\":\"a\xff\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := collect(strings.NewReader(body))
			var form *FormError
			if !errors.As(err, &form) || form.Message == "" {
				t.Errorf("the error is %v, want one of form", err)
			}
		})
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte(`{"op":"begin","version":1}` + "\n" + `{"op":"file","path":"a","size":3,"digest":"` + digest + `"}` + "\n" +
		`{"op":"data","length":3}` + "\nabc" + `{"op":"end","entries":1}` + "\n"))
	f.Add([]byte(`{"op":"begin","version":1}` + "\n" + `{"op":"file","path":"a","size":9,"digest":"` + digest + `"}` + "\n" +
		`{"op":"copy","path":"b","length":9}` + "\n" + `{"op":"delete","path":"x","expect":{"type":"none"}}` + "\n" + `{"op":"end","entries":2}` + "\n"))
	f.Add([]byte(`{"op":"begin","version":1}` + "\n" + `{"op":"stage","digest":"` + digest + `","size":9,"offset":4,"length":3}` + "\n" +
		`{"op":"data","length":3}` + "\nabc" + `{"op":"end","entries":1}` + "\n"))
	f.Add([]byte(`{"op":"begin","version":1}` + "\n" + `{"op":"file","path":"a","size":9,"digest":"` + digest + `","staged":true}` + "\n" +
		`{"op":"end","entries":1}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		frames, _, err := collect(bytes.NewReader(body))
		if err != nil {
			return
		}
		var missing int64
		for i, f := range frames {
			if (i == 0) != (f.Op == OpBegin) || (i == len(frames)-1) != (f.Op == OpEnd) {
				t.Fatalf("frame %d of %d is %s", i, len(frames), f.Op)
			}
			switch f.Op {
			case OpFile:
				if !f.Staged {
					missing = f.Size
				}
			case OpStage:
				missing = f.Length
				if len(frames) > 0 && i != 1 {
					t.Fatalf("a stage frame is at %d", i)
				}
			case OpData, OpCopy:
				missing -= f.Length
			default:
			}
			if missing < 0 || missing > 0 && f.Op != OpFile && f.Op != OpStage && f.Op != OpData && f.Op != OpCopy {
				t.Fatalf("a file lacks %d bytes at frame %d", missing, i)
			}
		}
	})
}

// text returns reproducible bytes that look like lines.
func text(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, seed))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(' ' + r.IntN(64))
		if r.IntN(60) == 0 {
			p[i] = '\n'
		}
	}
	return p
}

func chunksOf(t testing.TB, p []byte) (list []Chunk) {
	t.Helper()
	var joined int64
	for c := NewChunker(bytes.NewReader(p)); ; {
		chunk, data, err := c.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, p[joined:joined+chunk.Length]) {
			t.Fatalf("the chunk at %d has other bytes", joined)
		}
		joined += chunk.Length
		list = append(list, chunk)
	}
	if joined != int64(len(p)) {
		t.Fatalf("the chunks have %d bytes of %d", joined, len(p))
	}
	return list
}

func TestAnInsertedLineChangesAtMostTwoChunks(t *testing.T) {
	const size = 8 << 20
	old := text(1, size)
	known := map[Chunk]bool{}
	for i, c := range chunksOf(t, old) {
		known[c] = true
		if c.Length > MaxChunkBytes || c.Length < MinChunkBytes && i < 10 {
			t.Errorf("a chunk has %d bytes", c.Length)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	var worst, sum int64
	const edits = 40
	for range edits {
		at := r.IntN(size)
		edited := append(append(append([]byte{}, old[:at]...), "one more line\n"...), old[at:]...)
		var fresh int64
		for _, c := range chunksOf(t, edited) {
			if !known[c] {
				fresh += c.Length
			}
		}
		worst, sum = max(worst, fresh), sum+fresh
	}
	t.Logf("an inserted line sends %d bytes on average, %d at worst; %d chunks", sum/edits, worst, len(known))
	if worst > 2*MaxChunkBytes {
		t.Errorf("an inserted line sends %d bytes, want at most two chunks", worst)
	}
}

func TestSmallFilesAreOneChunkAndEmptyOnesNone(t *testing.T) {
	for size, want := range map[int]int{0: 0, 1: 1, MinChunkBytes: 1} {
		if got := len(chunksOf(t, text(3, size))); got != want {
			t.Errorf("%d bytes are %d chunks, want %d", size, got, want)
		}
	}
}

// The table and the cuts are part of the protocol: a client of another version must
// find the same ones.
func TestTheCutsAreTheSameForever(t *testing.T) {
	hash := sha256.New()
	for _, c := range chunksOf(t, text(4, 2<<20)) {
		hash.Write([]byte(c.ID))
	}
	const want = "27e2e319b46e63850369394ed703727ee461567090d36cfb32f6110667aa3517"
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("the cuts are %s, want %s", got, want)
	}
}

func BenchmarkChunker(b *testing.B) {
	p := text(5, 16<<20)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		chunksOf(b, p)
	}
}
