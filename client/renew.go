// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"time"
)

// Renewal is what a renewed instance says of its life.
type Renewal struct {
	// LastActive is when the instance was last used: just now.
	LastActive time.Time `json:"lastActiveTime"`
	// Shutdown is when it ends; zero for never.
	Shutdown time.Time `json:"shutdownTime,omitzero"`
	// Phase is its status.phase. One that slept wakes by being renewed.
	Phase string `json:"phase,omitempty"`
}

// RenewOptions say by how much an instance is renewed. The zero value only uses it, so that it
// counts as unused from now on. At most one field is set.
type RenewOptions struct {
	// Extend moves the instance's shutdown time, which it must have; one that has passed counts
	// from now.
	Extend time.Duration
	// Shutdown is the new shutdown time.
	Shutdown time.Time
}

// Renew uses the instance without asking anything of it, and moves its shutdown time. For the
// latter the caller needs the right to patch it.
func (i *Instance) Renew(ctx context.Context, opts RenewOptions) (*Renewal, error) {
	body := struct {
		Extend   string    `json:"extend,omitempty"`
		Shutdown time.Time `json:"shutdownTime,omitzero"`
	}{Shutdown: opts.Shutdown}
	if opts.Extend != 0 {
		body.Extend = opts.Extend.String()
	}
	renewal := &Renewal{}
	if err := i.DoJSON(ctx, Request{Method: http.MethodPost, Verb: "renew"}, body, renewal); err != nil {
		return nil, err
	}
	return renewal, nil
}
