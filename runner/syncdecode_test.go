// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// recorded is what a decoder handed on.
type recorded struct {
	Files   []syncFile
	Deletes []string
}

func (r *recorded) Write(path string, content []byte, executable *bool) error {
	r.Files = append(r.Files, syncFile{Path: path, Content: string(content), Executable: executable})
	return nil
}

func (r *recorded) Delete(path string, _ *syncwire.Entry) error {
	r.Deletes = append(r.Deletes, path)
	return nil
}

func TestDecodeSync(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		body string
		want recorded
		mode restartMode
		err  string
	}{
		"an empty object changes nothing": {body: `{}`, mode: restartNever},
		"files and deletes come in order": {
			body: `{"files":[{"path":"a","content":"1"},{"path":"b","content":"2"}],"deletePaths":["c","d"],"restart":"auto"}`,
			want: recorded{Files: []syncFile{{Path: "a", Content: "1"}, {Path: "b", Content: "2"}}, Deletes: []string{"c", "d"}},
			mode: restartAuto,
		},
		"the order of the fields does not matter": {
			body: `{"restart":"always","deletePaths":["c"],"files":[{"content":"1","path":"a"}]}`,
			want: recorded{Files: []syncFile{{Path: "a", Content: "1"}}, Deletes: []string{"c"}},
			mode: restartAlways,
		},
		"null stands for nothing":                 {body: `{"files":null,"deletePaths":null,"restart":null}`, mode: restartNever},
		"an empty restart is none":                {body: `{"restart":""}`, mode: restartNever},
		"space around the object is no more data": {body: " \n{} \n", mode: restartNever},
		"base64 is decoded":                       {body: `{"files":[{"path":"a","content":"AP8=","encoding":"base64"}]}`, want: recorded{Files: []syncFile{{Path: "a", Content: "\x00\xff"}}}, mode: restartNever},
		"the executable bit is handed on":         {body: `{"files":[{"path":"a","content":"","executable":true}]}`, want: recorded{Files: []syncFile{{Path: "a", Executable: &yes}}}, mode: restartNever},
		"text of several bytes a character":       {body: `{"files":[{"path":"ä","content":"日本\u00e9","encoding":"utf-8"}]}`, want: recorded{Files: []syncFile{{Path: "ä", Content: "日本é"}}}, mode: restartNever},
		"a field that is not known":               {body: `{"file":[]}`, err: `the field "file" is unknown`},
		"a field of a file that is not known":     {body: `{"files":[{"path":"a","mode":"0777"}]}`, err: `unknown field "mode"`},
		"a field twice":                           {body: `{"files":[],"files":[]}`, err: "twice"},
		"more after the object":                   {body: `{} {}`, err: "more after"},
		"garbage after the object":                {body: `{}]`, err: "not valid JSON"},
		"nothing":                                 {body: ``, err: "ends in the middle"},
		"an object that is cut":                   {body: `{"files":[{"path":"a"`, err: "ends in the middle"},
		"an array":                                {body: `[]`, err: "must be a JSON object"},
		"files that are no array":                 {body: `{"files":{}}`, err: "files must be an array"},
		"a file that is null":                     {body: `{"files":[null]}`, err: "null"},
		"a path that is no string":                {body: `{"files":[{"path":1}]}`, err: `the field "path" must not be a JSON number`},
		"a delete that is null":                   {body: `{"deletePaths":[null]}`, err: "null"},
		"a restart that is not known":             {body: `{"restart":"maybe"}`, err: "never, start, auto or always"},
		"an encoding that is not known":           {body: `{"files":[{"path":"a","encoding":"utf-16"}]}`, err: "utf-8 or base64"},
		"base64 that is none":                     {body: `{"files":[{"path":"a","content":"?","encoding":"base64"}]}`, err: "not valid base64"},
		"base64 with stray bits":                  {body: `{"files":[{"path":"a","content":"AP9=","encoding":"base64"}]}`, err: "not valid base64"},
		"bytes that are not UTF-8 in a file":      {body: "{\"files\":[{\"path\":\"a\",\"content\":\"\xff\"}]}", err: "not valid UTF-8"},
		"a character that is cut at the very end": {body: "{}\xe6\x97", err: "not valid"},
	} {
		for way, wrap := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				var got recorded
				mode, err := decodeJSON(wrap(strings.NewReader(test.body)), &got)
				if test.err != "" {
					if err == nil || !strings.Contains(err.Error(), test.err) {
						t.Errorf("the error is %v, want %q in it", err, test.err)
					} else if status := classify(err).status; status != http.StatusBadRequest {
						t.Errorf("the status is %d, want 400", status)
					}
					return
				}
				if err != nil || mode != test.mode {
					t.Errorf("mode %q and error %v, want %q", mode, err, test.mode)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("handed on (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestABodyThatIsCutInsideACharacterByTheLimitIsTooLarge(t *testing.T) {
	body := `{"files":[{"path":"a","content":"日本"}]}`
	limit := int64(strings.Index(body, "日") + 1)
	_, err := decodeJSON(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(body)), limit), &recorded{})
	if err == nil || classify(err).Code != "RequestTooLarge" {
		t.Errorf("the error is %v, want RequestTooLarge", err)
	}
}

// reference is what encoding/json makes of the same body.
type reference struct {
	Files       []*syncFile `json:"files"`
	DeletePaths []*string   `json:"deletePaths"`
	Restart     *string     `json:"restart"`
}

func FuzzDecodeSync(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"files":[{"path":"a","content":"1"}],"deletePaths":["b"],"restart":"auto"}`,
		`{"files":[{"path":"a","content":"AP8=","encoding":"base64","executable":true}]}`,
		`{"files":null}`, `{"files":[{}]} {}`, "{\"files\":[{\"path\":\"\xff\"}]}", `{"restart":1}`, `[`,
		`{"files":[{"path":"\ud800","PATH":"x"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got recorded
		mode, err := decodeJSON(bytes.NewReader(body), &got)
		if err != nil {
			var known *apiError
			if !errors.As(err, &known) || known.status != http.StatusBadRequest {
				t.Fatalf("%q: the error is %v, want a refusal", body, err)
			}
			return
		}
		if !utf8.Valid(body) {
			t.Fatalf("%q was accepted and is not UTF-8", body)
		}
		if mode != restartNever && mode != restartAuto && mode != restartAlways {
			t.Fatalf("%q: the mode is %q", body, mode)
		}
		var want reference
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q was accepted, and encoding/json says %v", body, err)
		}
		if len(want.Files) != len(got.Files) || len(want.DeletePaths) != len(got.Deletes) {
			t.Fatalf("%q: %d files and %d deletes, want %d and %d", body,
				len(got.Files), len(got.Deletes), len(want.Files), len(want.DeletePaths))
		}
		for i, file := range want.Files {
			if file.Path != got.Files[i].Path || file.Encoding != "base64" && file.Content != got.Files[i].Content {
				t.Fatalf("%q: file %d is %+v, want %+v", body, i, got.Files[i], file)
			}
		}
	})
}
