// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/sandbar-dev/sandbar/dataplane/locate"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
)

// maxCredentials bounds the pods whose challenge is known; another one costs a round trip.
const maxCredentials = 4096

// credentialKey is a port of a pod and the Secret whose token it is shown.
type credentialKey struct {
	pod    types.UID
	port   int
	secret string
	proves bool
}

// podProxy is the URL of a port of a Pod at the API server. It is that of the Pod and not of its
// Service: the API server takes any address that a slice of the Service has, and a proof is made for
// one pod.
func (a *apiServer) podProxy(e readyPod) url.URL {
	u := a.base
	u.Path += "/api/v1/namespaces/" + e.pod.Namespace + "/pods/" + e.pod.Name + ":" + strconv.Itoa(e.port) + "/proxy"
	return u
}

// throughAPIServer is the way to a target through the API server.
func (w *Ways) throughAPIServer(c *Call, to *locate.Target) (Way, *refusal.Error) {
	dest, d, a := to.Destination(), w.direct, w.apiServer
	var (
		at  url.URL
		pod endpointKey
	)
	// A body cannot be sent twice, so that the pod is asked anew who it is.
	anew := c.Request.ContentLength != 0
	shown, err := locate.Again(c.Request.Context(), d.changes, dest.Namespace, lagPatience, mayLag, func() (*credential, error) {
		pods := d.order(slices.Collect(d.ready(dest)))
		if len(pods) == 0 {
			return nil, d.none(dest)
		}
		var errs []error
		for _, e := range pods[:min(len(pods), maxAttempts)] {
			shown, err := a.credential(c.Request.Context(), d.tokens, dest, e, anew)
			if err == nil {
				pod, at = e.key(), a.podProxy(e)
				return shown, nil
			}
			if unreached(err) && c.Request.Context().Err() == nil {
				d.note(e.key(), true)
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	})
	if err != nil {
		return Way{}, w.failed(c.Request.Context(), c, to, err)
	}
	return Way{
		rt: a, url: to.URL(at, c.Route.Tail, c.Request.URL), strip: at.Path, credential: shown, pod: pod,
		path: utilnet.JoinPreservingTrailingSlash("/", to.URL(url.URL{}, c.Route.Tail, c.Request.URL).Path), // as the API server does
	}, nil
}

// unreached reports whether an error means that a pod was not reached, or said nothing.
func unreached(err error) bool {
	var refused *refusal.Error
	return errors.Is(err, errNotAccepted) || errors.As(err, &refused) && refused.Cause == refusal.CauseUnreachable
}

// credential returns how a pod is shown that requests are ours, as agreed with it before unless it is to
// be asked anew.
func (a *apiServer) credential(ctx context.Context, t *tokens, to locate.Destination, e readyPod, anew bool) (*credential, error) {
	key := credentialKey{e.pod.UID, e.port, to.Secret, to.Proves}
	if known, ok := a.credentials.Get(key); ok && !anew && known.isGood(t, to) {
		return known, nil
	}
	agreed, err := t.agree(ctx, to, e.pod, func(ctx context.Context, path, rawQuery string) ([]byte, error) {
		return a.challenge(ctx, a.podProxy(e), path, rawQuery)
	})
	if err == nil && agreed != nil {
		a.credentials.Add(key, agreed)
	}
	return agreed, err
}

func (a *apiServer) challenge(ctx context.Context, u url.URL, path, rawQuery string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, challengeTimeout)
	defer cancel()
	u.Path, u.RawQuery = u.Path+path, rawQuery
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("asking the pod for its challenge: %w", err)
	}
	res, err := a.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%w: asking the pod for its challenge: %w", errNotAccepted, err)
	}
	defer res.Body.Close()
	if refused := judgeAPIServer(res, false); refused != nil {
		return nil, refused
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxChallengeBytes)) //nolint:forbidigo // maxChallengeBytes
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, errUnproven
	}
	return body, nil
}
