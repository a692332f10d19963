// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

func sum(p []byte) string {
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// batch builds the body of a sync.
type batch struct {
	body bytes.Buffer
	*syncwire.Encoder
}

func newBatch(revision *int64) *batch {
	b := &batch{}
	b.Encoder = syncwire.NewEncoder(&b.body, revision, "")
	return b
}

func (b *batch) file(path, content string, expect *syncwire.Entry) *batch {
	_ = b.Entry(syncwire.Frame{
		Op: syncwire.OpFile, Path: path, Size: int64(len(content)), Digest: sum([]byte(content)), Expect: expect,
	})
	_ = b.Data([]byte(content))
	return b
}

func (b *batch) delete(path string, expect *syncwire.Entry) *batch {
	_ = b.Entry(syncwire.Frame{Op: syncwire.OpDelete, Path: path, Expect: expect})
	return b
}

// post sends a batch and decodes the answer, which must have the status.
func post[T any](s *sandbox, b *batch, status int) T {
	s.t.Helper()
	if err := b.End(); err != nil {
		s.t.Fatal(err)
	}
	response := s.postFrames(&b.body)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var reply T
	if err := json.Unmarshal(text, &reply); err != nil || response.StatusCode != status {
		s.t.Fatalf("the sync answered %d %s, want %d", response.StatusCode, text, status)
	}
	return reply
}

func (s *sandbox) postFrames(body io.Reader) *http.Response {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url+"/sync", body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set(TokenHeader, testToken)
	r.Header.Set("Content-Type", syncwire.ContentType)
	response, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return response
}

// list asks for the listing.
func (s *sandbox) list(query string) (syncwire.ListingHead, map[string]syncwire.Entry) {
	s.t.Helper()
	response := s.do(http.MethodGet, "/files"+query, "")
	defer response.Body.Close()
	var head syncwire.ListingHead
	entries := map[string]syncwire.Entry{}
	lines := bufio.NewScanner(response.Body)
	if response.StatusCode != http.StatusOK || !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil {
		s.t.Fatalf("the listing answered %d %s", response.StatusCode, lines.Bytes())
	}
	for lines.Scan() {
		var e syncwire.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			s.t.Fatal(err)
		}
		entries[e.Path] = e
	}
	if len(entries) != head.Entries {
		s.t.Fatalf("the listing has %d entries and says %d", len(entries), head.Entries)
	}
	return head, entries
}

func TestABatchOfFramesIsAppliedAndListed(t *testing.T) {
	s := startSandbox(t, "", nil)
	yes := true
	b := newBatch(nil)
	b.file("src/a.bin", "\x00\xff\r\n", &syncwire.Entry{Type: syncwire.None})
	_ = b.Entry(syncwire.Frame{Op: syncwire.OpFile, Path: "run.sh", Digest: sum(nil), Executable: &yes})
	_ = b.Entry(syncwire.Frame{Op: syncwire.OpSymlink, Path: "src/link", Target: "../run.sh"})
	_ = b.Entry(syncwire.Frame{Op: syncwire.OpDir, Path: "empty"})
	reply := post[syncwire.Reply](s, b, 200)
	want := syncwire.Reply{
		Phase: "Synced", Revision: 1, Changed: []string{"src/a.bin", "run.sh", "src/link", "empty"}, Deleted: []string{},
	}
	if diff := cmp.Diff(want, reply, cmp.AllowUnexported(apiError{})); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	head, entries := s.list("")
	if diff := cmp.Diff(map[string]syncwire.Entry{
		"src":       {Path: "src", Type: syncwire.Dir},
		"src/a.bin": {Path: "src/a.bin", Type: syncwire.File, Size: 4, Digest: sum([]byte("\x00\xff\r\n"))},
		"src/link":  {Path: "src/link", Type: syncwire.Symlink, Target: "../run.sh"},
		"run.sh":    {Path: "run.sh", Type: syncwire.File, Digest: sum(nil), Executable: true},
		"empty":     {Path: "empty", Type: syncwire.Dir},
	}, entries, cmpopts.IgnoreFields(syncwire.Entry{}, "ModTime")); diff != "" || head.Revision != 1 {
		t.Errorf("revision %d, listing (-want +got):\n%s", head.Revision, diff)
	}
	if _, without := s.list("?exclude=src&exclude=empty"); len(without) != 1 {
		t.Errorf("without src and empty the listing has %v", without)
	}
}

// The bit of the file that a symlink replaces was kept as if the link were a file, and opening the
// link for that failed.
func TestASymlinkReplacesAnExecutable(t *testing.T) {
	s := startSandbox(t, "", nil)
	yes := true
	b := newBatch(nil)
	_ = b.Entry(syncwire.Frame{Op: syncwire.OpFile, Path: "a", Digest: sum(nil), Executable: &yes})
	post[syncwire.Reply](s, b, 200)
	b = newBatch(nil)
	_ = b.Entry(syncwire.Frame{
		Op: syncwire.OpSymlink, Path: "a", Target: "b", Expect: &syncwire.Entry{Type: syncwire.File, Digest: sum(nil), Executable: true},
	})
	post[syncwire.Reply](s, b, 200)
	if _, entries := s.list(""); entries["a"].Target != "b" {
		t.Errorf("there is %+v", entries["a"])
	}
}

func TestAListingTellsWhatTheAppChanged(t *testing.T) {
	s := startSandbox(t, "", nil)
	post[syncwire.Reply](s, newBatch(nil).file("a", "old!", nil), 200)
	head, before := s.list("")
	r, _ := http.NewRequest(http.MethodGet, s.url+"/files", nil)
	r.Header.Set(TokenHeader, testToken)
	r.Header.Set("If-None-Match", `"`+head.Digest+`"`)
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNotModified {
		t.Errorf("an unchanged listing answers %d, want 304", response.StatusCode)
	}
	// Of one size, and with the time set back: only the change time tells.
	info, err := os.Stat(filepath.Join(s.dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"new1", "new2", "new3"} {
		if err := os.WriteFile(filepath.Join(s.dir, "a"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(s.dir, "a"), info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		after, entries := s.list("")
		if after.Digest == head.Digest || entries["a"].Digest != sum([]byte(content)) {
			t.Errorf("after the app wrote %s the listing is %+v, before it was %+v", content, entries["a"], before["a"])
		}
	}
}

func TestABatchForAnotherRevisionIsRefused(t *testing.T) {
	s := startSandbox(t, "", nil)
	post[syncwire.Reply](s, newBatch(nil).file("a", "1", nil), 200)
	zero, one := int64(0), int64(1)
	e := post[apiError](s, newBatch(&zero).file("a", "2", nil), http.StatusConflict)
	if e.Code != "RevisionMismatch" || e.Revision == nil || *e.Revision != 1 {
		t.Errorf("the answer is %+v, want the current revision", e)
	}
	post[syncwire.Reply](s, newBatch(&one).file("a", "2", nil), 200)
}

func TestAllConflictsAreListedAndNothingIsApplied(t *testing.T) {
	s := startSandbox(t, "", nil)
	post[syncwire.Reply](s, newBatch(nil).file("a", "1", nil).file("b", "1", nil).file("d/x", "1", nil).file("same", "2", nil), 200)
	if err := os.WriteFile(filepath.Join(s.dir, "b"), []byte("the app's"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	none := &syncwire.Entry{Type: syncwire.None}
	was := &syncwire.Entry{Type: syncwire.File, Digest: sum([]byte("1"))}
	b := newBatch(nil).file("a", "2", was).file("b", "2", was).file("d/x", "2", none).file("same", "2", was).
		delete("gone", was).file("e", "2", nil)
	e := post[apiError](s, b, http.StatusConflict)
	if e.Code != "Conflict" {
		t.Errorf("the code is %s", e.Code)
	}
	found := map[string]syncwire.Type{}
	for _, c := range e.Conflicts {
		if c.Reason == "" || c.Actual == nil {
			t.Errorf("the conflict %+v says too little", c)
			continue
		}
		found[c.Path] = c.Actual.Type
		if c.Path == "b" && (c.Actual.Digest != sum([]byte("the app's")) || c.Expected.Digest != was.Digest || c.Wanted.Digest != sum([]byte("2"))) {
			t.Errorf("the conflict %+v does not have the digests of both sides", c)
		}
	}
	want := map[string]syncwire.Type{"b": syncwire.File, "d/x": syncwire.File, "e": syncwire.Dir}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
	if content, _ := os.ReadFile(filepath.Join(s.dir, "a")); string(content) != "1" {
		t.Errorf("a part of the batch was applied: %q", content)
	}
}

// A batch whose answer was lost is sent again, although the tree is not what it
// expects any more.
func TestABatchCanBeSentAgain(t *testing.T) {
	s := startSandbox(t, "", nil)
	none := &syncwire.Entry{Type: syncwire.None}
	for _, changed := range []int{1, 0} {
		reply := post[syncwire.Reply](s, newBatch(nil).file("a", "1", none), 200)
		if len(reply.Changed) != changed || reply.Revision != 1 {
			t.Errorf("the reply is %+v, want %d changes and revision 1", reply, changed)
		}
	}
}

func TestOneLineInAFileOf50MegabytesSendsLittle(t *testing.T) {
	const size, most = 50 << 20, 200_000
	s := startSandbox(t, "", nil)
	random := rand.NewChaCha8([32]byte{1})
	old := make([]byte, size)
	_, _ = random.Read(old)
	b := newBatch(nil)
	_ = b.Entry(syncwire.Frame{Op: syncwire.OpFile, Path: "big", Size: size, Digest: sum(old)})
	_ = b.Data(old)
	post[syncwire.Reply](s, b, 200)

	edited := append(append(append([]byte{}, old[:size/3]...), "one more line\n"...), old[size/3:]...)
	has := callJSON[syncwire.Chunks](s, "GET", "/files/big?chunks", "", 200)
	at := map[syncwire.Chunk]int64{}
	var offset int64
	for _, c := range has.Chunks {
		at[c] = offset
		offset += c.Length
	}
	b = newBatch(nil)
	_ = b.Entry(syncwire.Frame{
		Op: syncwire.OpFile, Path: "big", Size: int64(len(edited)), Digest: sum(edited),
		Expect: &syncwire.Entry{Type: syncwire.File, Digest: has.Digest},
	})
	for cutter := syncwire.NewChunker(bytes.NewReader(edited)); ; {
		c, data, err := cutter.Next()
		if err != nil {
			break
		}
		if from, ok := at[c]; ok {
			_ = b.Copy("big", from, c.Length)
		} else {
			_ = b.Data(data)
		}
	}
	sent := b.body.Len()
	post[syncwire.Reply](s, b, 200)
	t.Logf("%d bytes were sent", sent)
	if sent > most {
		t.Errorf("%d bytes were sent, want at most %d", sent, most)
	}
	if got, _ := os.ReadFile(filepath.Join(s.dir, "big")); !bytes.Equal(got, edited) {
		t.Error("the file is not the edited one")
	}
}

func TestARenameSendsNoContent(t *testing.T) {
	s := startSandbox(t, "", nil)
	content := strings.Repeat("x", 100_000)
	post[syncwire.Reply](s, newBatch(nil).file("old", content, nil), 200)
	rename := func(digest string) *batch {
		b := newBatch(nil)
		_ = b.Entry(syncwire.Frame{Op: syncwire.OpFile, Path: "new", Size: int64(len(content)), Digest: digest})
		_ = b.Copy("old", 0, int64(len(content)))
		return b.delete("old", nil)
	}
	if e := post[apiError](s, rename(sum([]byte("another"))), http.StatusConflict); e.Code != "SourceChanged" {
		t.Errorf("a copy that gives something else is answered %s", e.Code)
	}
	post[syncwire.Reply](s, rename(sum([]byte(content))), 200)
	if got, _ := os.ReadFile(filepath.Join(s.dir, "new")); string(got) != content {
		t.Errorf("the renamed file has %d bytes", len(got))
	}
	if _, entries := s.list(""); len(entries) != 1 {
		t.Errorf("the listing is %v, want one file", entries)
	}
}

func TestFramesThatAreRefused(t *testing.T) {
	s := startSandbox(t, "", func(c *Config) {
		c.Workspace.Files, c.Workspace.FileBytes, c.Workspace.BatchBytes = 3, 100, 150
		c.Workspace.TotalFiles, c.Workspace.TotalBytes = 4, 20<<10
	})
	post[syncwire.Reply](s, newBatch(nil).file("has", "1", nil).file("has2", "1", nil), 200)
	link := func(path, target string) *batch {
		b := newBatch(nil)
		_ = b.Entry(syncwire.Frame{Op: syncwire.OpSymlink, Path: path, Target: target})
		return b
	}
	if err := os.WriteFile(filepath.Join(s.dir, "fill"), make([]byte, 12<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	hundred := strings.Repeat("x", 100)
	for name, test := range map[string]struct {
		batch  *batch
		status int
		code   string
		says   string
	}{
		"a file above the limit":                  {newBatch(nil).file("a", hundred+"x", nil), 413, "FileTooLarge", "100 bytes"},
		"a batch above the limit":                 {newBatch(nil).file("a", hundred, nil).file("b", hundred, nil), 413, "BatchTooLarge", "150 bytes"},
		"entries above the limit":                 {newBatch(nil).file("a", "", nil).file("b", "", nil).file("c", "", nil).file("d", "", nil), 413, "TooManyFiles", "3 files"},
		"a workspace of too many files":           {newBatch(nil).file("a", "", nil).file("b", "", nil), 507, "InsufficientStorage", "limit is 4"},
		"a path out of the workspace":             {newBatch(nil).file("../a", "", nil), 400, "InvalidPath", ""},
		"an absolute symlink":                     {link("l", "/etc/passwd"), 400, "InvalidPath", "absolute"},
		"a symlink that leads out":                {link("d/l", "../../x"), 400, "InvalidPath", "outside"},
		"a symlink that climbs out behind a name": {link("d/l", "a/../../../x"), 400, "InvalidPath", "outside"},
		"a symlink to the staging directory":      {link("l", ".sandbar/state"), 400, "InvalidPath", "reserved"},
		"a batch that is cut":                     {&batch{}, 400, "MalformedRequest", "end"},
		"a delete of the staging directory":       {newBatch(nil).delete(".SANDBAR", nil), 400, "InvalidPath", "reserved"},
		"a path that is deleted twice":            {newBatch(nil).delete("a", nil).delete("a", nil), 400, "InvalidBatch", "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.batch.Encoder == nil {
				test.batch.Encoder = syncwire.NewEncoder(io.Discard, nil, "")
				test.batch.body.WriteString(`{"op":"begin","version":1}` + "\n")
			}
			e := post[apiError](s, test.batch, test.status)
			if e.Code != test.code || !strings.Contains(e.Message, test.says) {
				t.Errorf("the answer is %s: %s, want %s with %q", e.Code, e.Message, test.code, test.says)
			}
			if _, err := os.Lstat(filepath.Join(s.dir, "a")); err == nil {
				t.Error("a part of the batch was applied")
			}
		})
	}
	t.Run("a workspace of too many bytes", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(s.dir, "fill"), make([]byte, 40<<10), 0o644); err != nil {
			t.Fatal(err)
		}
		e := post[apiError](s, newBatch(nil).file("has", hundred, nil), 507)
		if e.Code != "InsufficientStorage" || !strings.Contains(e.Message, "20480 bytes") {
			t.Errorf("the answer is %+v, want the limit", e)
		}
		// Whoever makes room is let through.
		post[syncwire.Reply](s, newBatch(nil).delete("fill", nil), 200)
	})
}

func TestAFileIsReadBackWholeOrInPart(t *testing.T) {
	s := startSandbox(t, "", nil)
	post[syncwire.Reply](s, newBatch(nil).file("d/ä b%.bin", "\x00123456789", nil), 200)
	for name, test := range map[string]struct {
		path, header string
		status       int
		want         string
	}{
		"the whole file":            {"/files/d/%C3%A4%20b%25.bin", "", 200, "\x00123456789"},
		"a range":                   {"/files/d/%C3%A4%20b%25.bin", "bytes=1-3", 206, "123"},
		"the end":                   {"/files/d/%C3%A4%20b%25.bin", "bytes=-2", 206, "89"},
		"a range beyond the end":    {"/files/d/%C3%A4%20b%25.bin", "bytes=100-", 416, ""},
		"a directory":               {"/files/d", "", 409, ""},
		"nothing":                   {"/files/none", "", 404, ""},
		"a path that leads up":      {"/files/d/..%2f..%2fetc/passwd", "", 400, ""},
		"the staging directory":     {"/files/.sandbar/revision", "", 400, ""},
		"a symlink out of the tree": {"/files/out", "", 409, ""},
		"a way through a symlink":   {"/files/outdir/passwd", "", 409, ""},
		"an absolute path":          {"/files//etc/passwd", "", 400, ""},
	} {
		_ = os.Symlink("/etc/passwd", filepath.Join(s.dir, "out"))
		_ = os.Symlink("/etc", filepath.Join(s.dir, "outdir"))
		t.Run(name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodGet, s.url+test.path, nil)
			r.Header.Set(TokenHeader, testToken)
			if test.header != "" {
				r.Header.Set("Range", test.header)
			}
			response, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != test.status || test.status < 300 && string(body) != test.want {
				t.Errorf("the answer is %d %q, want %d %q", response.StatusCode, body, test.status, test.want)
			}
			if test.status < 300 && (response.Header.Get("Content-Type") != "application/octet-stream" ||
				response.Header.Get("ETag") != `"`+sum([]byte("\x00123456789"))+`"`) {
				t.Errorf("the header is %v", response.Header)
			}
		})
	}
}
