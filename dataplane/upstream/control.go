// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/dataplane/headers"
	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
)

const (
	// challengeTimeout bounds how long a pod takes to prove that it has the control token. It is
	// as patient as a busy node needs.
	challengeTimeout = 10 * time.Second
	// maxChallengeBytes is more than any challenge with its header.
	maxChallengeBytes = 16 << 10
	// maxSession is for how long a challenge is good. The two machines' clocks run at nearly the
	// same speed; in this time they do not drift apart by what a proof is bound to.
	maxSession = 10 * time.Minute
)

// errUnproven means that a pod has not proven that it has the placement's control token: it has
// another one, or is none of ours. Nothing of the request has been sent to it.
var errUnproven = errors.New("the pod has not proven that it has the placement's control token")

// credential shows one pod that requests are ours: by a proof, or by the token itself if the pod
// takes no proofs.
type credential struct {
	pod     types.UID
	token   secretToken
	session *controlproof.Session // nil: the token is sent
	since   time.Time
	// refused is set once the pod has refused it; its connection is not used again.
	refused atomic.Bool
}

// header returns the header that a request carries; name is empty if it carries none.
func (c *credential) header(method, path, rawQuery string) (name, value string) {
	switch {
	case c == nil:
		return "", ""
	case c.session != nil:
		return controlproof.Header, string(c.session.AppendProof(nil, method, path, rawQuery))
	}
	return headers.ControlToken, c.token.reveal()
}

// isGood reports whether the credential may be used for another request: the Secret still has its
// token, its challenge is young, and the pod has not refused it.
func (c *credential) isGood(t *tokens, to locate.Destination) bool {
	if c == nil {
		return true
	}
	if c.refused.Load() || c.session != nil && time.Since(c.since) > maxSession {
		return false
	}
	current, former, err := t.of(to)
	if err != nil {
		return false
	}
	if len(current) == 0 { // a Secret that is gone is being made again
		current = former
	}
	return slices.Contains(current, c.token.reveal())
}

// takesProofs reports whether a pod was told its UID, by a container that serves control requests. It is
// read from the pod's spec, which does not change and which nobody can write who has not made the
// pod: what a pod answers could talk the data plane into sending the token.
func takesProofs(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		if slices.ContainsFunc(pod.Spec.Containers[i].Env, locate.NamesPodUID) {
			return true
		}
	}
	return false
}

// askChallenge sends the request for a challenge and returns the answer's body.
type askChallenge func(ctx context.Context, path, rawQuery string) ([]byte, error)

// agree finds a credential for a pod. With one that takes proofs it settles, before anything else is
// sent, which token both have.
func (t *tokens) agree(ctx context.Context, to locate.Destination, pod *corev1.Pod, ask askChallenge) (*credential, error) {
	if to.Secret == "" {
		return nil, nil //nolint:nilnil // none is needed
	}
	current, former, err := t.of(to)
	if err != nil {
		return nil, err
	}
	known := append(slices.Clone(current), former...)
	if !to.Proves || !takesProofs(pod) {
		return &credential{pod: pod.UID, token: newSecretToken(t.likeliest(pod.UID, known))}, nil
	}
	keys := make([]controlproof.Key, len(known))
	for i, token := range known {
		keys[i] = controlproof.NewKey(token)
	}
	nonce := controlproof.NewNonce()
	body, err := ask(ctx, controlproof.ChallengePath, controlproof.NonceParameter+"="+url.QueryEscape(nonce))
	if err != nil {
		return nil, err
	}
	var challenge controlproof.Challenge
	if err := json.Unmarshal(body, &challenge); err != nil {
		return nil, errUnproven // without the error's text, which may quote the pod
	}
	session, err := challenge.Accept(string(pod.UID), nonce, keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnproven, err)
	}
	chosen := slices.IndexFunc(keys, session.Key().Equal)
	return &credential{pod: pod.UID, token: newSecretToken(known[chosen]), session: session, since: time.Now()}, nil
}

// askOver asks for a challenge over a connection that nothing was sent on. The connection is good for
// requests afterwards.
func askOver(conn net.Conn) askChallenge {
	return func(ctx context.Context, path, rawQuery string) ([]byte, error) {
		if err := conn.SetDeadline(time.Now().Add(challengeTimeout)); err != nil {
			return nil, fmt.Errorf("asking the pod for its challenge: %w", err)
		}
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
		if _, err := io.WriteString(conn, "GET "+path+"?"+rawQuery+" HTTP/1.1\r\nHost: "+headers.PodHost+"\r\n\r\n"); err != nil {
			return nil, fmt.Errorf("%w: asking the pod for its challenge: %w", errNotAccepted, err)
		}
		in := bufio.NewReaderSize(io.LimitReader(conn, maxChallengeBytes), 4<<10)
		if _, err := in.Peek(1); err != nil {
			return nil, fmt.Errorf("%w: waiting for the pod's challenge: %w", errNotAccepted, err)
		}
		res, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
		if err != nil {
			return nil, errUnproven
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body) //nolint:forbidigo // maxChallengeBytes
		// Bytes beyond the answer would be taken for the answer to what is asked next.
		if err != nil || res.StatusCode != http.StatusOK || res.Close || in.Buffered() > 0 {
			return nil, errUnproven
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if err := conn.SetDeadline(time.Time{}); err != nil {
			return nil, fmt.Errorf("asking the pod for its challenge: %w", err)
		}
		return body, nil
	}
}
