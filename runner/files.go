// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

const (
	pathFiles = "/files"

	// maxExcludes bounds the names that a listing leaves out.
	maxExcludes = 64

	// maxChunkedBytes bounds a file of which chunks are listed: the list of one of
	// 1 GiB has about 26,000.
	maxChunkedBytes = 1 << 30
)

var errNoFile = &apiError{
	status: http.StatusNotFound, Code: syncwire.CodeFileNotFound, Message: "there is no such file in the workspace",
}

// files lists the workspace, or sends one file of it.
func (s *server) files(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, pathFiles), "/")
	if path == "" && r.URL.Query().Has(syncwire.ParamStaged) {
		return s.staged(w, r.URL.Query().Get(syncwire.ParamStaged))
	}
	if path == "" {
		return s.listing(w, r)
	}
	chunks, err := flag(r.URL.Query(), syncwire.ParamChunks)
	if err != nil {
		return err
	}
	if chunks {
		return s.chunks(w, path)
	}
	return s.content(w, r, path)
}

// listing sends the head and one line for each entry. A client that has the same
// listing already is told so.
func (s *server) listing(w http.ResponseWriter, r *http.Request) error {
	exclude, err := excludes(r)
	if err != nil {
		return err
	}
	list, err := s.workspace.List(exclude)
	if err != nil {
		return err
	}
	defer list.Close()
	h := w.Header()
	tag := `"` + list.Head.Digest + `"`
	h.Set("ETag", tag)
	h.Set("Cache-Control", "no-store")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	out := deadlineWriter{w, http.NewResponseController(w)}
	// A client that is gone is nobody to tell.
	_ = json.NewEncoder(out).Encode(list.Head) //nolint:errchkjson // as above
	_, _ = io.Copy(out, list.Lines())
	return nil
}

// staged says how much of a content waits for a batch.
func (s *server) staged(w http.ResponseWriter, digest string) error {
	if !syncwire.ValidDigest(digest) {
		return malformed("staged must be a SHA-256 digest in lower-case hex")
	}
	staged, err := s.workspace.Staged(digest)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, staged)
	return nil
}

// excludes are the names that a caller wants to hear nothing of.
func excludes(r *http.Request) ([]string, error) {
	names := r.URL.Query()[syncwire.ParamExclude]
	if len(names) > maxExcludes {
		return nil, malformed("exclude may be there %d times at most", maxExcludes)
	}
	for _, name := range names {
		if workspace.CheckPath(name) != nil || strings.Contains(name, "/") {
			return nil, malformed("exclude must be one name, such as node_modules")
		}
	}
	return names, nil
}

// content sends a regular file, or a range of it. Its type is never guessed: what
// a sandbox made must not become a page of whoever shows it.
func (s *server) content(w http.ResponseWriter, r *http.Request, path string) error {
	file, err := s.open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if info, err := file.Stat(); err == nil {
		h.Set(syncwire.ExecutableHeader, strconv.FormatBool(info.Mode()&0o100 != 0))
	}
	e, err := s.workspace.Describe(path)
	switch {
	case err != nil:
	case e.Digest != "":
		h.Set("ETag", `"`+e.Digest+`"`)
	default:
		// A file that is too large to be read for a tag: a client that has the beginning of one
		// that has changed since gets the whole, and no range.
		h.Set("ETag", `"`+workspace.VersionOf(file)+`"`)
	}
	// The time is left out: with a strong tag it only adds a weaker answer.
	http.ServeContent(deadlineResponse{w, http.NewResponseController(w)}, r, "", time.Time{}, file)
	return nil
}

// chunks tells how a file is made up, so that a client sends what is new in it.
func (s *server) chunks(w http.ResponseWriter, path string) error {
	file, err := s.open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	e, err := s.workspace.Describe(path)
	if err != nil {
		return err
	}
	if e.Size > maxChunkedBytes || e.Digest == "" {
		return &apiError{
			status: http.StatusRequestEntityTooLarge, Code: "FileTooLarge",
			Message: "the file is larger than what is cut into chunks; send it whole",
		}
	}
	reply := syncwire.Chunks{Digest: e.Digest, Chunks: []syncwire.Chunk{}}
	for cutter := syncwire.NewChunker(io.LimitReader(file, maxChunkedBytes)); ; {
		chunk, _, err := cutter.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		reply.Size += chunk.Length
		reply.Chunks = append(reply.Chunks, chunk)
	}
	writeJSON(w, http.StatusOK, reply)
	return nil
}

func (s *server) open(path string) (*os.File, error) {
	file, err := s.workspace.OpenFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoFile
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// deadlineWriter bounds each write: a client that takes nothing ends, and one that
// is slow does not.
type deadlineWriter struct {
	out     io.Writer
	control *http.ResponseController
}

func (d deadlineWriter) Write(p []byte) (int, error) {
	_ = d.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	return d.out.Write(p)
}

// deadlineResponse is a response with the bound of a deadlineWriter.
type deadlineResponse struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (d deadlineResponse) Write(p []byte) (int, error) {
	return deadlineWriter{d.ResponseWriter, d.control}.Write(p)
}
