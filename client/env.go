// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
)

// EnvChange says which variables of the process's environment to set, over those of its
// container, and which to take back.
type EnvChange struct {
	Set   map[string]string `json:"set,omitempty"`
	Unset []string          `json:"unset,omitempty"`
	// Restart is never, start (when it does not run), auto (when something changed) or always;
	// empty is never. The process has the variables from its next start on, commands of Exec at
	// once.
	Restart string `json:"restart,omitempty"`
}

// Env is the state of the variables.
type Env struct {
	// Set has the names that were set, ordered. Nobody is told values.
	Set       []string `json:"set"`
	Changed   bool     `json:"changed"`
	Restarted bool     `json:"restarted"`
	// RestartError is why the process could not be restarted, nil if it could or was not to be.
	RestartError *struct {
		Message string `json:"message"`
	} `json:"restartError,omitempty"`
}

// Env tells which variables are set.
func (i *Instance) Env(ctx context.Context) (*Env, error) {
	env := &Env{}
	if err := i.DoJSON(ctx, Request{Verb: "env"}, nil, env); err != nil {
		return nil, err
	}
	return env, nil
}

// SetEnv changes variables, all or none.
func (i *Instance) SetEnv(ctx context.Context, change EnvChange) (*Env, error) {
	env := &Env{}
	if err := i.DoJSON(ctx, Request{Method: http.MethodPost, Verb: "env"}, change, env); err != nil {
		return nil, err
	}
	return env, nil
}
