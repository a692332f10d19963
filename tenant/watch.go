// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/watch"
)

// maxWatchBytes bounds what is read of one watch, which shows one object: it ends then, and is begun again.
const maxWatchBytes = 16 << 20

// errWatchEnded means that kcp has ended a watch, as it does after some minutes, or when it does not have the version
// any more from which on it was to show changes.
var errWatchEnded = errors.New("kcp has ended the watch")

// Watch shows an object as it changes after a version, until done says that it is as it should be. The
// outcomes:
//
//	Allowed       done said so
//	NotFound      the object was deleted
//	Denied        the caller may not watch the object; of a Subject nothing is watched
//	Unavailable   the watch has ended, or ctx has: read the object, and watch it again
func (c *Client) Watch(ctx context.Context, caller Caller, ref Ref, version string, done func(object json.RawMessage) (bool, error)) Answer {
	if _, ok := caller.User(); ok {
		return Answer{Outcome: Denied}
	}
	if caller.IsZero() {
		return Answer{Outcome: Unauthorized}
	}
	ctx, cancel := context.WithCancel(ctx) // ends the watch when this returns
	defer cancel()
	u := c.in(ref, url.Values{"watch": {"true"}, "fieldSelector": {"metadata.name=" + ref.Name}, "resourceVersion": {version}})
	req := newRequest(ctx, http.MethodGet, u, acceptObject, nil)
	caller.authenticate(req.Header)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return Answer{Err: fmt.Errorf("watching an object: %w", err)}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return refusal(res)
	}
	for events := json.NewDecoder(io.LimitReader(res.Body, maxWatchBytes)); ; {
		var event struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&event); err != nil {
			return Answer{Err: fmt.Errorf("watching an object: %w", err)}
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			if over, err := done(event.Object); over || err != nil {
				return Answer{Outcome: outcomeOf(err), Err: err}
			}
		case watch.Deleted:
			return Answer{Outcome: NotFound}
		case watch.Error:
			return Answer{Err: errWatchEnded}
		case watch.Bookmark: // says nothing about an object
		}
	}
}

func outcomeOf(err error) Outcome {
	if err != nil {
		return Unavailable
	}
	return Allowed
}
