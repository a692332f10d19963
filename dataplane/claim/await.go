// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/tenant"
)

const (
	// firstPause and longestPause bound how long to wait before a watch that has ended is begun again.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// Await waits until the Sandbox is Ready, does not become so by itself, or ctx ends, by watching it as the caller. It returns the
// Sandbox as it was seen last, with a Message if it is not Ready.
func (c *Claim) Await(ctx context.Context, s *Sandbox) (*Sandbox, *refusal.Error) {
	// The answer of a creation has no status, and what a key has found may be old news.
	for pause := firstPause; !s.Ready() && !s.rests() && ctx.Err() == nil; pause = min(2*pause, longestPause) {
		got := c.Workspace.Watch(ctx, c.Caller, c.ref(s.Metadata.Name), s.Metadata.ResourceVersion, func(object json.RawMessage) (bool, error) {
			now := &Sandbox{}
			if err := json.Unmarshal(object, now); err != nil {
				return false, fmt.Errorf("reading a Sandbox: %w", err)
			}
			if now.Metadata.UID != s.Metadata.UID {
				return false, errAnother
			}
			s = now
			return s.Ready() || s.rests(), nil
		})
		if ctx.Err() == nil || got.Outcome == tenant.Allowed {
			c.Called(CallWatch, got.Outcome)
		}
		switch got.Outcome {
		case tenant.Allowed:
			continue
		case tenant.NotFound:
			return nil, gone(s)
		case tenant.Denied, tenant.NoAccess, tenant.Unauthorized:
			s.Message = fmt.Sprintf("Sandbox %s was not waited for: the verb claim works with your own rights, and you may not watch %s; kubectl get %s %s shows whether it is Ready",
				s.Metadata.Name, c.Sandboxes.Resource, c.Sandboxes.Resource, s.Metadata.Name)
			return c.told(s), nil
		case tenant.Unavailable, tenant.ClaimNotAccepted, tenant.Refused: // asked again
		}
		next, refused := c.again(ctx, s, pause)
		if refused != nil {
			return nil, refused
		}
		s = next
	}
	return c.told(s), nil
}

// errAnother means that the name is another Sandbox's now.
var errAnother = errors.New("the Sandbox was deleted and made again under its name")

// again reads the Sandbox after a pause; what kcp does not answer leaves it as it was seen last.
func (c *Claim) again(ctx context.Context, s *Sandbox, pause time.Duration) (*Sandbox, *refusal.Error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return s, nil
	}
	now := &Sandbox{}
	got := c.Workspace.Get(ctx, c.Caller, c.ref(s.Metadata.Name), now)
	c.Called(CallGet, got.Outcome)
	switch {
	case got.Outcome == tenant.NotFound, got.Outcome == tenant.Allowed && now.Metadata.UID != s.Metadata.UID:
		return nil, gone(s)
	case got.Outcome == tenant.Allowed:
		return now, nil
	}
	return s, nil
}

func gone(s *Sandbox) *refusal.Error {
	return refusal.Gone(fmt.Sprintf("Sandbox %s was deleted before it was Ready: send the request again for another one", s.Metadata.Name))
}

// told adds to a Sandbox what a caller needs to know of one that is not Ready.
func (c *Claim) told(s *Sandbox) *Sandbox {
	s.Metadata.ManagedFields = nil
	switch {
	case s.Ready() || s.Message != "":
	case s.rests():
		s.Message = fmt.Sprintf("Sandbox %s is not Ready and does not become so by itself: %s", s.Metadata.Name, s.says())
	default:
		s.Message = fmt.Sprintf("Sandbox %s is not Ready yet, and goes on starting: %s. Wait for it with sandbar wait sandbox %s",
			s.Metadata.Name, s.says(), s.Metadata.Name)
		if c.Request.Key != "" {
			s.Message += ", or send the request again with its idempotency key"
		}
	}
	return s
}
