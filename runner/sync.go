// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"errors"
	"io"
	"net/http"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/runner/workspace"
)

// sync stages the whole body, commits it, and then restarts the app if asked. The
// body is a batch of frames (package syncwire), or one JSON object.
func (s *server) sync(w http.ResponseWriter, r *http.Request) error {
	limit, decode := s.config.SyncBytes, decodeSync
	framed := r.Header.Get("Content-Type") == syncwire.ContentType
	if framed {
		limit, decode = s.config.Workspace.BatchBytes+maxBatchFraming, decodeFrames
	}
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	batch, err := s.workspace.NewBatch()
	if err != nil {
		return err
	}
	defer batch.Discard()
	var body io.Reader = http.MaxBytesReader(w, r.Body, limit)
	if framed {
		body = &patientReader{from: body, control: http.NewResponseController(w)}
	}
	mode, staged, err := decode(body, batch)
	if err != nil {
		return err
	}
	if staged != nil {
		writeJSON(w, http.StatusOK, syncwire.Reply{
			Phase: syncwire.PhaseStaged, Revision: s.workspace.Revision(), Changed: list(nil), Deleted: list(nil), Staged: staged,
		})
		return nil
	}
	result, err := batch.Commit()
	if err != nil {
		return err
	}
	reply := syncwire.Reply{
		Phase: syncwire.PhaseSynced, Revision: result.Revision, Unchanged: result.Unchanged,
		Changed: list(result.Changed), Deleted: list(result.Deleted),
	}
	s.follow(r.Context(), mode, s.afterSync(result), &reply)
	writeJSON(w, http.StatusOK, reply)
	// The answer goes before the stage is cleared away.
	_ = http.NewResponseController(w).Flush()
	return nil
}

const (
	// maxBatchFraming is what the frames of a batch may take besides its content.
	maxBatchFraming = 64 << 20

	// stallTimeout bounds the time in which nothing of a body arrives, for one that
	// is larger than what comes within bodyTimeout.
	stallTimeout = 30 * time.Second
)

// patientReader gives a body that arrives in time more time: a first sync of many
// megabytes over a slow line is no attack, and one that stands still is none
// either for long.
type patientReader struct {
	from    io.Reader
	control *http.ResponseController
	began   time.Time
}

func (p *patientReader) Read(b []byte) (int, error) {
	if p.began.IsZero() {
		p.began = time.Now()
	} else if time.Since(p.began) > bodyTimeout-stallTimeout {
		_ = p.control.SetReadDeadline(time.Now().Add(stallTimeout))
	}
	return p.from.Read(b)
}

// decodeFrames reads a batch of frames into batch. As with decodeSync, nothing may
// be applied before it has returned without an error. staged is not nil for a stream that
// has a part of a content instead of a batch.
func decodeFrames(body io.Reader, to *workspace.Batch) (mode restartMode, staged *syncwire.Staged, err error) {
	d := syncwire.NewDecoder(body)
	begin, err := d.Next()
	if err != nil {
		return "", nil, err
	}
	if mode, err = parseRestart(begin.Restart); err != nil {
		return "", nil, err
	}
	if begin.Revision != nil {
		to.At(*begin.Revision)
	}
	for {
		f, err := d.Next()
		switch {
		case errors.Is(err, io.EOF):
			return mode, staged, nil
		case err != nil:
			return "", nil, err
		case f.Op == syncwire.OpEnd:
			continue // and then nothing must follow
		case f.Op == syncwire.OpStage:
			staged, err = stagePart(d, f, to)
		default:
			err = addFrame(d, f, to)
		}
		if err != nil {
			return "", nil, err
		}
	}
}

func addFrame(d *syncwire.Decoder, f syncwire.Frame, to *workspace.Batch) error {
	switch f.Op {
	case syncwire.OpSymlink:
		return to.Symlink(f.Path, f.Target, f.Expect)
	case syncwire.OpDir:
		return to.Dir(f.Path, f.Expect)
	case syncwire.OpDelete:
		if f.Recursive {
			return to.Delete(f.Path, f.Expect)
		}
		return to.Remove(f.Path, f.Expect)
	default: // a file: the decoder lets nothing else stand here
		return addFile(d, f, to)
	}
}

// addFile takes the pieces of a file until it has its size.
func addFile(d *syncwire.Decoder, f syncwire.Frame, to *workspace.Batch) error {
	if f.Staged {
		return to.Staged(f)
	}
	file, err := to.File(f)
	if err != nil {
		return err
	}
	defer file.Abort()
	if err := addPieces(d, file, f.Size); err != nil {
		return err
	}
	return file.Close()
}

// stagePart takes a part of a content. What came of one that is cut off stays.
func stagePart(d *syncwire.Decoder, f syncwire.Frame, to *workspace.Batch) (*syncwire.Staged, error) {
	part, err := to.Stage(f)
	if err != nil {
		return nil, err
	}
	cut := addPieces(d, part, f.Length)
	staged, err := part.Close()
	if cut != nil {
		return nil, cut
	}
	return &staged, err
}

// pieces takes content piece by piece.
type pieces interface {
	Fill(from io.Reader, n int64) error
	Copy(path string, offset, length int64) error
}

// addPieces takes pieces until they have so many bytes together.
func addPieces(d *syncwire.Decoder, to pieces, left int64) error {
	for left > 0 {
		piece, err := d.Next()
		if err != nil {
			return err
		}
		switch piece.Op {
		case syncwire.OpData:
			err = to.Fill(d, piece.Length)
		case syncwire.OpCopy:
			err = to.Copy(piece.Path, piece.Offset, piece.Length)
		default:
			return malformed("the content before %q lacks %d bytes", piece.Op, left)
		}
		if err != nil {
			return err
		}
		left -= piece.Length
	}
	return nil
}

// list makes an empty list of none, which JSON would show as null.
func list(paths []string) []string {
	if paths == nil {
		return []string{}
	}
	return paths
}
