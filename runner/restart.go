// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"net/http"
	"time"
)

const (
	// defaultRestartTimeout bounds how long a caller waits for a restart: the
	// grace, the killing and the start, with room to spare.
	defaultRestartTimeout = 30 * time.Second
	// maxRestartTimeout bounds what a caller may ask for.
	maxRestartTimeout = 2 * time.Minute
)

// restartReply is the body of POST /restart.
type restartReply struct {
	Restarted bool   `json:"restarted"`
	PID       int    `json:"pid"`
	Attempt   uint32 `json:"attempt"`
}

func (s *server) restart(w http.ResponseWriter, r *http.Request) error {
	timeout := defaultRestartTimeout
	if value := r.URL.Query().Get("timeout"); value != "" {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 || d > maxRestartTimeout {
			return malformed("timeout must be a duration above 0s and up to %s", maxRestartTimeout)
		}
		timeout = d
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	started, err := s.supervisor.Restart(ctx)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, restartReply{Restarted: true, PID: started.PID, Attempt: started.Attempt})
	return nil
}
