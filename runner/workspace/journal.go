// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package workspace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// The journal of a batch is a file in its stage. A batch takes these steps, and
// whatever stops the runner between two of them, the next one finds out which:
//
//  1. The stage batch-X has all content, synced. Stopped here: nothing happened.
//  2. journalFile is written and synced, and so is the stage.
//  3. The stage is renamed to commitName, and the staging directory is synced: the
//     batch is decided. Stopped here or later: it is applied to its end.
//  4. The operations are applied. Each can be done again and undone, whether it
//     was done or not.
//  5. The revision is written, and every directory that was changed is synced.
//  6. The stage gets its old name back and is deleted: the batch is over. It must
//     not be deleted under the other name: half of a stage is a journal that lies.
//
// When a step of 4 or 5 fails, the stage is renamed to undoName, and the batch is
// taken back. Stopped there, the next runner goes on taking it back.
const (
	journalFile = "journal"
	commitName  = "commit"
	undoName    = "undo"

	journalVersion = 1

	// maxJournalBytes bounds a journal: 10,000 entries with paths of the greatest
	// length, and their directories.
	maxJournalBytes = 64 << 20
)

// opKind orders operations too: what is deleted makes room for what is put.
type opKind uint8

const (
	opDelete opKind = iota + 1
	opRemoveDir
	opMakeDir
	opPut
)

// op is one operation of a journal. The names in the stage follow from N alone, so
// that a forged journal cannot name anything else.
type op struct {
	Kind opKind `json:"kind"`
	Path string `json:"path"`
	N    int    `json:"n"`
	// Had tells, for a put, that something was there.
	Had bool `json:"had,omitempty"`

	// seen is what was there when the batch was planned, if it must still be there.
	seen *unix.Stat_t
	// named marks a directory that is an entry of the batch.
	named bool
}

type journal struct {
	Version  int   `json:"version"`
	Revision int64 `json:"revision"`
	Ops      []op  `json:"ops"`
}

func encodeJournal(revision int64, ops []op) ([]byte, error) {
	text, err := json.Marshal(journal{Version: journalVersion, Revision: revision, Ops: ops})
	if err != nil {
		return nil, err
	}
	if len(text) > maxJournalBytes {
		return nil, &Error{
			Code:    CodeTooManyFiles,
			Message: fmt.Sprintf("the journal of the batch exceeds the limit of %d bytes; send it in several batches", maxJournalBytes),
		}
	}
	return text, nil
}

var errJournal = errors.New("malformed journal")

// decodeJournal checks a journal like a batch from a client: the app can write the
// staging directory, and must not move anything by it that it could not move itself.
func decodeJournal(text []byte) (journal, error) {
	var j journal
	if err := json.Unmarshal(text, &j); err != nil {
		return journal{}, errors.Join(errJournal, err)
	}
	if j.Version != journalVersion || j.Revision < 0 || j.Revision > maxRevision {
		return journal{}, errJournal
	}
	for _, o := range j.Ops {
		if o.Kind < opDelete || o.Kind > opPut || o.N < 0 {
			return journal{}, errJournal
		}
		if err := CheckPath(o.Path); err != nil {
			return journal{}, errors.Join(errJournal, err)
		}
	}
	return j, nil
}

// readJournal reads the journal of a stage.
func readJournal(stage directory) (journal, error) {
	f, err := stage.openRead(journalFile)
	if err != nil {
		return journal{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJournalBytes)) //nolint:forbidigo // bounded by maxJournalBytes
	if err != nil {
		return journal{}, err
	}
	return decodeJournal(text)
}

// Recovery tells what [Open] found of an earlier runner.
type Recovery struct {
	// Applied means that a batch was decided and not finished; it is applied now.
	Applied bool
	// Undone means that a batch had failed, or could not be finished, and is taken
	// back now.
	Undone bool
	// Remain has the paths that could not be taken back.
	Remain []string
	// Moved is how many names were moved from the top of a volume into its workspace.
	Moved int
}

// recoverBatch finishes a batch that an earlier runner left.
func (w *Workspace) recoverBatch(staging directory) (Recovery, error) {
	var r Recovery
	there, err := staging.exists(undoName)
	if err != nil {
		return r, err
	}
	if there {
		r.Undone = true
		r.Remain, err = w.recoverUndo(staging)
		return r, err
	}
	if there, err = staging.exists(commitName); err != nil || !there {
		return r, err
	}
	stage, err := staging.openDir(commitName)
	if err != nil {
		return r, nil // no directory: not a runner's
	}
	defer stage.close()
	j, err := readJournal(stage)
	if err != nil {
		return r, nil // a runner syncs the journal before the name: not a runner's
	}
	c := commit{workspace: w, stage: stage, ops: j.Ops}
	if err = c.run(); err == nil {
		err = w.advance(staging, j.Revision)
	}
	if err == nil {
		err = c.sync(staging)
	}
	if err == nil {
		r.Applied = true
		return r, staging.drop(commitName)
	}
	if err := errors.Join(staging.rename(commitName, staging, undoName), staging.sync()); err != nil {
		return r, err
	}
	r.Undone = true
	r.Remain, err = w.recoverUndo(staging)
	return r, err
}

// recoverUndo takes back what lies in undoName.
func (w *Workspace) recoverUndo(staging directory) ([]string, error) {
	stage, err := staging.openDir(undoName)
	if err != nil {
		return nil, nil // no directory: not a runner's
	}
	defer stage.close()
	j, err := readJournal(stage)
	if err != nil {
		return nil, nil // as above
	}
	c := commit{workspace: w, stage: stage, ops: j.Ops}
	remain := c.undo()
	// The batch that failed may have been counted already.
	if j.Revision > 0 && w.revision.Load() >= j.Revision {
		if err := w.advance(staging, j.Revision-1); err != nil {
			return remain, err
		}
	}
	if err := c.sync(staging); err != nil {
		return remain, err
	}
	return remain, staging.drop(undoName)
}
