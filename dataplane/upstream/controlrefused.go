// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/record"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
)

// maxControlAttempts is how often a request is shown to a control server that refuses it: with each
// of the tokens that the pod may have.
const maxControlAttempts = 3

// errControlRefused means that a control server has refused what it was shown.
var errControlRefused = errors.New("the pod's control server refused the provider")

// controlRefused is for a control server and a data plane that cannot show each other that they
// belong together. Neither the caller nor its right has anything to do with it.
func controlRefused(err error) *refusal.Error {
	e := refusal.BadGateway(refusal.CauseControl, "the instance and the provider do not accept each other's control token: try again in two minutes, and tell the operator if that does not help", err)
	e.RetryAfter = 5 * time.Second
	return e
}

// judgeControl replaces a control server's 401 and 403. It does not know the caller, whose right kcp
// has judged: whom it refuses is the provider.
func judgeControl(to *locate.Target, res *http.Response) *refusal.Error {
	if to.Secret == "" || res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return nil
	}
	reason := controlproof.RefusedError(res.Header.Get(controlproof.RefusedHeader))
	if !slices.Contains(controlproof.Refusals(), reason) {
		reason = record.Other // a pod's own words are not for the log
	}
	return controlRefused(fmt.Errorf("%w: %d, reason %s", errControlRefused, res.StatusCode, string(reason)))
}

// shown is what a request has shown to a pod.
type shown struct{ credential *credential }

type shownKey struct{}

// notesShown has the connection that carries a request note what it shows.
func notesShown(ctx context.Context) (context.Context, *shown) {
	s := &shown{}
	return context.WithValue(ctx, shownKey{}, s), s
}

// Carry carries a request to a pod, and again with another credential if the pod's control server
// refuses that. What it refuses it has not done; but a body that was read cannot be sent again.
func (w *Ways) Carry(ctx context.Context, c *Call, to *locate.Target, up Way) *refusal.Error {
	if to.Secret == "" {
		return w.carry(ctx, c, to, up)
	}
	for attempt := 1; ; attempt++ {
		noting, seen := notesShown(ctx)
		refused := w.carry(noting, c, to, up)
		if refused == nil || !errors.Is(refused, errControlRefused) {
			return refused
		}
		if seen.credential == nil {
			seen.credential = up.credential
		}
		w.refused(seen)
		if c.Request.ContentLength != 0 || attempt == maxControlAttempts {
			return refused
		}
		if up, refused = w.Way(c, to); refused != nil {
			return refused
		}
		up.anew, c.Sent = true, time.Now()
		c.Minder.Asked(c.Sent)
	}
}

// refused notes that a pod has refused a credential: another one is agreed upon, and, of who sends the
// token itself, another token tried first.
func (c *chooser) refused(s *shown) {
	if s.credential == nil {
		return
	}
	s.credential.refused.Store(true)
	if s.credential.session == nil {
		c.direct.tokens.refused(s.credential.pod, s.credential.token)
	}
}
