// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package syncwire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func goldenOf(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// answers are the golden files with JSON, one value for each line.
func answers() map[string][]any {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const oldText = "x\n"
	a := Entry{Type: File, Size: 5, Digest: digestOf("hello"), Executable: true}
	b := Entry{Path: "b.ts", Type: File, Size: 7, Digest: digestOf("hell\nyo")}
	listedA, listedB := a, b
	listedA.Path, listedA.ModTime, listedB.ModTime = "a.ts", &at, &at
	conflict := Conflict{
		Path: "a.ts", Reason: "it is not what the client expected", Actual: &a,
		Expected: &Entry{Type: File, Digest: digestOf(oldText)},
		Wanted:   &Entry{Type: File, Size: 2, Digest: digestOf(oldText), Executable: true},
	}
	staged := Staged{Digest: digestOf("foo"), Offset: 2}
	none := []string{}
	return map[string][]any{
		"reply.json":        {&Reply{Phase: PhaseSynced, Revision: 1, Changed: []string{"a.ts", "l", "empty", "old.ts"}, Deleted: none}},
		"reply-delta.json":  {&Reply{Phase: PhaseSynced, Revision: 2, Changed: []string{"b.ts"}, Deleted: []string{"old.ts", "empty"}}},
		"reply-staged.json": {&Reply{Phase: PhaseStaged, Revision: 2, Changed: none, Deleted: none, Staged: &staged}},
		"reply-restart-failed.json": {&Reply{
			Phase: PhaseSynced, Revision: 3, Changed: []string{"a.ts"}, Deleted: none,
			RestartError: &Error{Code: "StartFailed", Message: "no such file"},
		}},
		"reply-reload.json": {&Reply{
			Phase: PhaseSynced, Revision: 3, Changed: []string{"go.mod"}, Unchanged: 1, Deleted: none, Restarted: true,
			Reload: &Reload{State: ReloadDone, Rules: []int{0, 2}, Restarted: true},
		}},
		"error-conflict.json":  {&Error{Code: "Conflict", Message: `"a.ts": it is not what the client expected`, Conflicts: []Conflict{conflict}}},
		"error-not-found.json": {&Error{Code: CodeFileNotFound, Message: "there is no such file in the workspace"}},
		"staged.json":          {&staged},
		"chunks.json":          {&Chunks{Digest: b.Digest, Size: 7, Chunks: []Chunk{{Length: 7, ID: b.Digest[:32]}}}},
		"listing.ndjson": {
			&ListingHead{Revision: 2, Digest: "4b4fc5ccf1533e1c536a8c24be85d03ef3477111c3dca0b9e33c9fb9cd757694", Entries: 3},
			&listedA, &listedB, &Entry{Path: "l", Type: Symlink, Target: "a.ts"},
		},
		"changes.ndjson": {
			&Change{Revision: 1}, &Change{Revision: 1, Entry: &b},
			&Change{Revision: 2, Entry: &Entry{Path: "old.ts", Type: None}},
			&Change{Revision: 2, Resync: "too many changes at once"},
		},
	}
}

// A client or a runner of another version reads and writes these bytes.
func TestAnswersAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, values := range answers() {
		t.Run(name, func(t *testing.T) {
			golden := goldenOf(t, name)
			var written bytes.Buffer
			for read := json.NewDecoder(bytes.NewReader(golden)); len(values) > 0; values = values[1:] {
				if err := json.NewEncoder(&written).Encode(values[0]); err != nil {
					t.Fatal(err)
				}
				got := reflect.New(reflect.TypeOf(values[0]).Elem()).Interface()
				err := read.Decode(got)
				if diff := cmp.Diff(values[0], got); err != nil || diff != "" {
					t.Errorf("read (-want +got), %v:\n%s", err, diff)
				}
			}
			if diff := cmp.Diff(string(golden), written.String()); diff != "" {
				t.Errorf("written (-golden +got):\n%s", diff)
			}
		})
	}
}

// goldenBatch is a batch; data frames have the bytes.
type goldenBatch struct {
	revision *int64
	restart  string
	frames   []Frame
	data     string
}

func batches() map[string]goldenBatch {
	yes, one := true, int64(1)
	old := digestOf("x\n")
	return map[string]goldenBatch{
		"batch.golden": {nil, RestartAuto, []Frame{
			{Op: OpFile, Path: "a.ts", Size: 5, Digest: digestOf("hello"), Executable: &yes, Expect: &Entry{Type: None}},
			{Op: OpData, Length: 5},
			{Op: OpSymlink, Path: "l", Target: "a.ts"},
			{Op: OpDir, Path: "empty"},
			{Op: OpFile, Path: "old.ts", Size: 2, Digest: old},
			{Op: OpData, Length: 2},
		}, "hellox\n"},
		"batch-delta.golden": {&one, RestartLater, []Frame{
			{Op: OpFile, Path: "b.ts", Size: 7, Digest: digestOf("hell\nyo")},
			{Op: OpCopy, Path: "a.ts", Length: 4},
			{Op: OpData, Length: 3},
			{Op: OpDelete, Path: "old.ts", Expect: &Entry{Type: File, Digest: old}},
			{Op: OpDelete, Path: "empty", Recursive: true},
		}, "\nyo"},
		"batch-conflict.golden": {nil, RestartNever, []Frame{
			{Op: OpFile, Path: "a.ts", Size: 2, Digest: old, Expect: &Entry{Type: File, Digest: old}},
			{Op: OpData, Length: 2},
		}, "x\n"},
		"batch-stage.golden": {nil, RestartNever, []Frame{
			{Op: OpStage, Digest: digestOf("foo"), Size: 3, Length: 2},
			{Op: OpData, Length: 2},
		}, "fo"},
	}
}

func TestBatchesAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, b := range batches() {
		t.Run(name, func(t *testing.T) {
			golden := goldenOf(t, name)
			frames, data, err := collect(bytes.NewReader(golden))
			entries := 0
			for _, f := range b.frames {
				if f.Op != OpData && f.Op != OpCopy {
					entries++
				}
			}
			want := append([]Frame{{Op: OpBegin, Version: Version, Revision: b.revision, Restart: b.restart}}, b.frames...)
			want = append(want, Frame{Op: OpEnd, Entries: entries})
			if diff := cmp.Diff(want, frames); err != nil || diff != "" || data != b.data {
				t.Errorf("read %q, %v (-want +got):\n%s", data, err, diff)
			}
			if diff := cmp.Diff(string(golden), encoded(t, b)); diff != "" {
				t.Errorf("written (-golden +got):\n%s", diff)
			}
		})
	}
}

func encoded(t *testing.T, b goldenBatch) string {
	t.Helper()
	var out bytes.Buffer
	e, data := NewEncoder(&out, b.revision, b.restart), b.data
	for _, f := range b.frames {
		switch f.Op {
		case OpData:
			_ = e.Data([]byte(data[:f.Length]))
			data = data[f.Length:]
		case OpCopy:
			_ = e.Copy(f.Path, f.Offset, f.Length)
		default:
			_ = e.Entry(f)
		}
	}
	if err := e.End(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestNumbersAndNamesAreThoseOfTheGoldenFile(t *testing.T) {
	text, err := json.MarshalIndent(map[string]any{
		"version": Version, "contentType": ContentType, "maxFrameSize": MaxFrameBytes,
		"restart":      []any{RestartNever, RestartLater, RestartStart, RestartAuto, RestartAlways},
		"parameters":   []any{ParamExclude, ParamStaged, ParamChunks},
		"headers":      []any{ExecutableHeader},
		"codes":        []any{CodeFileNotFound, CodeRequestTooLarge, CodeBatchTooLarge, CodeOffsetMismatch},
		"phases":       []any{PhaseSynced, PhaseStaged},
		"reloadStates": []any{ReloadRunning, ReloadDone, ReloadFailed},
		"types":        []any{None, File, Symlink, Dir, Other},
	}, "", "  ")
	if diff := cmp.Diff(string(goldenOf(t, "names.json")), string(text)+"\n"); err != nil || diff != "" {
		t.Errorf("names (-golden +got), %v:\n%s", err, diff)
	}
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) != len(answers())+len(batches())+1 {
		t.Errorf("testdata has %v, %v: each file needs a value in these tests", files, err)
	}
}
