// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"encoding/json"
	"net/http"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
)

// changes tells what changes in the workspace, until the caller goes or the runner ends. Its
// first line is sent when nothing is missed any more: who lists the workspace after that, has
// all of it.
func (s *server) changes(w http.ResponseWriter, r *http.Request) error {
	exclude, err := excludes(r)
	if err != nil {
		return err
	}
	watch, err := s.workspace.Watch(exclude)
	if err != nil {
		return err
	}
	defer watch.Close()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()

	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	lines := json.NewEncoder(deadlineWriter{w, control})
	told := []syncwire.Change{{Revision: s.workspace.Revision()}}
	for {
		for i := range told {
			if err := lines.Encode(&told[i]); err != nil {
				return nil // a client that is gone is nobody to tell
			}
		}
		if control.Flush() != nil {
			return nil
		}
		// What cannot be watched any more, the client learns when it asks again.
		if told, err = watch.Next(ctx); err != nil { // the header is out
			return nil
		}
	}
}
