// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// maxResponseBytes bounds what is read of an answer. An object in etcd is at most 1.5 MiB
	// by default; JSON with managed fields may be somewhat more.
	maxResponseBytes = 4 << 20
	// maxDrainBytes is read and dropped of an answer whose body nobody wants, so that the
	// connection can be used again.
	maxDrainBytes = 64 << 10
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 64 << 10
	// userAgent is what kcp's audit log shows.
	userAgent = "sandbar-dataplane"

	acceptObject   = "application/json"
	acceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// errAnswer means that kcp answered something that is no answer to the question.
var errAnswer = errors.New("unexpected answer from kcp")

// Ref names an object in a workspace.
type Ref struct {
	// Workspace is a workspace path or a logical cluster name.
	Workspace string
	Group     string
	Version   string
	// Resource is the plural resource name.
	Resource  string
	Namespace string
	Name      string
}

// Client asks kcp as callers. It is safe for concurrent use.
type Client struct {
	base      url.URL
	transport *http.Transport
}

// New makes a client for the kcp that cfg leads to. Of cfg only the address and what verifies
// the server are used; its credentials and the workspace in its path are not.
func New(cfg *rest.Config) (*Client, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the address of kcp: %w", err)
	}
	path, _, _ := strings.Cut(base.Path+"/", "/clusters/")
	anonymous := rest.AnonymousClientConfig(cfg)
	tlsConfig, err := rest.TLSConfigFor(anonymous)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of kcp: %w", err)
	}
	return &Client{
		base: url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimRight(path, "/")},
		transport: &http.Transport{
			// Only a proxy that the configuration names: an environment variable must not
			// send callers' tokens somewhere else.
			Proxy:                  cfg.Proxy,
			TLSClientConfig:        tlsConfig,
			DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			MaxIdleConnsPerHost:    32,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    5 * time.Second,
			ResponseHeaderTimeout:  10 * time.Second,
			MaxResponseHeaderBytes: maxHeaderBytes,
			// A connection that died silently would stall every review on it for minutes.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		},
	}, nil
}

// Close drops the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// GetMetadata reads the metadata of an object as the caller: less than the object for kcp to
// send and for us to decode.
func (c *Client) GetMetadata(ctx context.Context, caller Caller, ref Ref) (*metav1.PartialObjectMetadata, Answer) {
	obj := &metav1.PartialObjectMetadata{}
	answer := c.do(ctx, caller, http.MethodGet, c.objectURL(ref), acceptMetadata, nil, obj)
	if answer.Outcome == Allowed && (obj.UID == "" || obj.Name != ref.Name) {
		return nil, Answer{Err: fmt.Errorf("reading an instance: %w", errAnswer)}
	}
	return obj, answer
}

// Get reads an object as the caller into obj, which is a pointer to what JSON decodes into.
func (c *Client) Get(ctx context.Context, caller Caller, ref Ref, obj any) Answer {
	return c.do(ctx, caller, http.MethodGet, c.objectURL(ref), acceptObject, nil, obj)
}

// Review asks a SelfSubjectAccessReview in a workspace as the caller. Denied covers all of: the
// review says no, the caller has no access to the workspace, and there is no such workspace,
// because kcp does not let a stranger tell these apart and neither may we.
func (c *Client) Review(ctx context.Context, caller Caller, workspace string, spec authorizationv1.SelfSubjectAccessReviewSpec) Answer {
	review := &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
		Spec:     spec,
	}
	body, err := json.Marshal(review)
	if err != nil {
		return Answer{Err: fmt.Errorf("encoding a review: %w", err)}
	}
	u := c.url("clusters", workspace, "apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")
	var got authorizationv1.SelfSubjectAccessReview
	answer := c.do(ctx, caller, http.MethodPost, u, acceptObject, body, &got)
	switch {
	case answer.Outcome == NotFound:
		answer.Outcome = Denied
	case answer.Outcome == Allowed && !got.Status.Allowed:
		answer.Outcome = Denied
	}
	return answer
}

func (c *Client) objectURL(ref Ref) *url.URL {
	return c.url("clusters", ref.Workspace, "apis", ref.Group, ref.Version, "namespaces", ref.Namespace, ref.Resource, ref.Name)
}

// url joins segments to the base. Each is escaped, so that no value can add a segment.
func (c *Client) url(segments ...string) *url.URL {
	var plain, raw strings.Builder
	plain.WriteString(c.base.Path)
	raw.WriteString(c.base.EscapedPath())
	for _, s := range segments {
		plain.WriteString("/" + s)
		raw.WriteString("/" + url.PathEscape(s))
	}
	return &url.URL{Scheme: c.base.Scheme, Host: c.base.Host, Path: plain.String(), RawPath: raw.String()}
}

// do asks kcp and decodes a good answer into out. It uses the transport itself: a client would
// follow redirects, and a redirect must never carry a caller's token to another place.
func (c *Client) do(ctx context.Context, caller Caller, method string, u *url.URL, accept string, body []byte, out any) Answer {
	if caller.IsZero() {
		return Answer{Outcome: Unauthorized}
	}
	req := (&http.Request{
		Method: method, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": {accept}, "User-Agent": {userAgent}},
	}).WithContext(ctx)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	caller.authenticate(req.Header)
	res, err := c.transport.RoundTrip(req)
	if err != nil {
		return Answer{Err: fmt.Errorf("asking kcp: %w", err)}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		// What kcp says in words is for the caller to ask kcp; only the code decides.
		_, _ = io.CopyN(io.Discard, res.Body, maxDrainBytes)
		return refusal(res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxResponseBytes+1)) //nolint:forbidigo // maxResponseBytes
	if err != nil {
		return Answer{Err: fmt.Errorf("reading kcp's answer: %w", err)}
	}
	if len(data) > maxResponseBytes {
		return Answer{Err: fmt.Errorf("reading kcp's answer: %w: more than %d bytes", errAnswer, maxResponseBytes)}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return Answer{Err: fmt.Errorf("decoding kcp's answer: %w", errAnswer)}
	}
	return Answer{Outcome: Allowed}
}

func refusal(res *http.Response) Answer {
	switch res.StatusCode {
	case http.StatusUnauthorized:
		return Answer{Outcome: Unauthorized}
	case http.StatusForbidden:
		return Answer{Outcome: Denied}
	case http.StatusNotFound:
		return Answer{Outcome: NotFound}
	}
	answer := Answer{Err: fmt.Errorf("%w: status %d", errAnswer, res.StatusCode)}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		answer.RetryAfter = time.Duration(min(seconds, 60)) * time.Second
	}
	return answer
}
