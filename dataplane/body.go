// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"io"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// body reads the body of a verb that the data plane answers itself: at most so many bytes, and 413 beyond.
func (x *exchange) body(most int64) ([]byte, *refusal.Error) {
	if x.request.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(x.request.Body, most+1)) //nolint:forbidigo // most
	switch {
	case x.Stalled.Load():
		return nil, refusal.Stalled(x.Stall)
	case err != nil:
		return nil, access.ClientGone(err)
	case int64(len(body)) > most:
		return nil, refusal.BodyTooLarge(most)
	}
	return body, nil
}
