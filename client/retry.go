// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

// Pauses between two tries: the first, doubled each time up to the longest. Half of each is
// random, so that many clients of a data plane that was gone do not come back at once.
const (
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// Temporary tells whether a call that failed can succeed without anybody doing something about
// it: the connection broke, the data plane or the sandbox is not there at the moment, or there
// were too many calls. What was refused is not temporary.
func Temporary(err error) bool {
	var answer *CallError
	var untrusted *UntrustedError
	var own *outputError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.As(err, &untrusted), errors.As(err, &own), errors.Is(err, ErrReplaced):
		return false
	case errors.As(err, &certificate):
		return false // another CA, or somebody in between: a person has to look at it
	case !errors.As(err, &answer):
		return true // there was no answer, or half of one
	}
	switch answer.Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		return !answer.Sandbox // the data plane's word for an instance that is not ready
	default:
		return false
	}
}

// pauses counts tries.
type pauses struct{ last time.Duration }

// next is how long to wait after err.
func (p *pauses) next(err error) time.Duration {
	p.last = min(max(firstPause, 2*p.last), longestPause)
	var answer *CallError
	if errors.As(err, &answer) && answer.RetryAfter > p.last {
		return answer.RetryAfter
	}
	return p.last/2 + rand.N(p.last/2) //nolint:gosec // a pause is no secret
}

// reset begins anew, after a success.
func (p *pauses) reset() { p.last = 0 }
