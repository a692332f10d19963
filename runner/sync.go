// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"net/http"

	"github.com/sandbar-dev/sandbar/runner/supervise"
)

// syncReply is the body of POST /sync when the batch was applied. What went wrong
// with the restart afterwards is part of it, and no failure of the sync: the files
// are changed.
type syncReply struct {
	Phase        string    `json:"phase"`
	Revision     int64     `json:"revision"`
	Changed      []string  `json:"changed"`
	Unchanged    int       `json:"unchanged"`
	Deleted      []string  `json:"deleted"`
	Restarted    bool      `json:"restarted"`
	RestartError *apiError `json:"restartError,omitempty"`
}

// sync stages the whole body, commits it, and then restarts the app if asked.
func (s *server) sync(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > s.config.SyncBytes {
		return tooLarge(s.config.SyncBytes)
	}
	batch, err := s.workspace.NewBatch()
	if err != nil {
		return err
	}
	defer batch.Discard()
	mode, err := decodeSync(http.MaxBytesReader(w, r.Body, s.config.SyncBytes), batch)
	if err != nil {
		return err
	}
	result, err := batch.Commit()
	if err != nil {
		return err
	}
	reply := syncReply{
		Phase: "Synced", Revision: result.Revision, Unchanged: result.Unchanged,
		Changed: list(result.Changed), Deleted: list(result.Deleted),
	}
	if s.needsRestart(mode, len(result.Changed)+len(result.Deleted) > 0) {
		ctx, cancel := context.WithTimeout(r.Context(), defaultRestartTimeout)
		defer cancel()
		if _, err := s.supervisor.Restart(ctx); err != nil {
			reply.RestartError = classify(err)
		} else {
			reply.Restarted = true
		}
	}
	writeJSON(w, http.StatusOK, reply)
	return nil
}

// needsRestart decides after a sync. Automatic means: something changed, or the
// app does not run, which the change may be the cure for.
func (s *server) needsRestart(mode restartMode, changed bool) bool {
	state := s.supervisor.Status().State
	switch mode {
	case restartAlways:
		return true
	case restartAuto:
		return state != supervise.NotConfigured && (changed || state != supervise.Running)
	default:
		return false
	}
}

// list makes an empty list of none, which JSON would show as null.
func list(paths []string) []string {
	if paths == nil {
		return []string{}
	}
	return paths
}
