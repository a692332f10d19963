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

	authenticationv1 "k8s.io/api/authentication/v1"
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
	// acceptMetadataList is acceptMetadata for several objects.
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
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

// Client asks kcp for callers. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	transport *http.Transport
	virtual   *VirtualWorkspace
}

// New makes a client for the kcp that cfg leads to. Of cfg only the address and what verifies
// the server are used; its credentials and the workspace in its path are not. Of Subject callers
// virtual asks; without it, nil, nothing can be said of them.
func New(cfg *rest.Config, virtual *VirtualWorkspace) (*Client, error) {
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
		base:    &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimRight(path, "/")},
		virtual: virtual,
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

// GetMetadata reads the metadata of an object for the caller: less than the object for kcp to
// send and for us to decode.
func (c *Client) GetMetadata(ctx context.Context, caller Caller, ref Ref) (*metav1.PartialObjectMetadata, Answer) {
	obj := &metav1.PartialObjectMetadata{}
	answer := c.get(ctx, caller, ref, acceptMetadata, obj)
	if answer.Outcome == Allowed && (obj.UID == "" || obj.Name != ref.Name) {
		return nil, Answer{Err: fmt.Errorf("reading an instance: %w", errAnswer)}
	}
	return obj, answer
}

// Get reads an object for the caller into obj, which is a pointer to what JSON decodes into. obj
// is of no meaning unless the outcome is Allowed.
func (c *Client) Get(ctx context.Context, caller Caller, ref Ref, obj any) Answer {
	return c.get(ctx, caller, ref, acceptObject, obj)
}

func (c *Client) get(ctx context.Context, caller Caller, ref Ref, accept string, obj any) Answer {
	if user, ok := caller.User(); ok {
		return c.virtual.getFor(ctx, user, ref, accept, obj)
	}
	return c.do(ctx, caller, http.MethodGet, join(c.base, append([]string{"clusters", ref.Workspace}, ref.path()...)...), accept, nil, obj)
}

// Review asks what the caller may do in a workspace: Allowed or Denied is what kcp says there,
// NoAccess that it says nothing to the caller in this workspace.
func (c *Client) Review(ctx context.Context, caller Caller, workspace string, spec authorizationv1.SelfSubjectAccessReviewSpec) Answer {
	if user, ok := caller.User(); ok {
		return c.virtual.review(ctx, user, workspace, spec)
	}
	var got authorizationv1.SelfSubjectAccessReview
	answer := c.post(ctx, caller, workspace, "authorization.k8s.io", "selfsubjectaccessreviews", &authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}, Spec: spec,
	}, &got)
	return decided(answer, got.Status)
}

// WhoAmI tells who the caller is. A Subject is known; of a bearer caller kcp is asked, in a
// workspace that the caller has access to.
func (c *Client) WhoAmI(ctx context.Context, caller Caller, workspace string) (authenticationv1.UserInfo, Answer) {
	if user, ok := caller.User(); ok {
		return user, Answer{Outcome: Allowed}
	}
	var got authenticationv1.SelfSubjectReview
	answer := c.post(ctx, caller, workspace, "authentication.k8s.io", "selfsubjectreviews", &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
	}, &got)
	switch {
	case answer.Outcome == NotFound:
		answer.Outcome = Denied
	case answer.Outcome == Allowed && got.Status.UserInfo.Username == "":
		return authenticationv1.UserInfo{}, Answer{Err: fmt.Errorf("asking who a caller is: %w", errAnswer)}
	}
	return got.Status.UserInfo, answer
}

// decided is the outcome of a review that was answered.
func decided(answer Answer, status authorizationv1.SubjectAccessReviewStatus) Answer {
	switch {
	case answer.Outcome == NotFound || answer.Outcome == Denied:
		answer.Outcome = NoAccess
	case answer.Outcome == Allowed && !status.Allowed:
		answer.Outcome = Denied
	}
	return answer
}

// path is the object's within its workspace.
func (r Ref) path() []string { return append(r.collection(), r.Name) }

// collection is the path of the objects of the resource in the namespace.
func (r Ref) collection() []string {
	return []string{"apis", r.Group, r.Version, "namespaces", r.Namespace, r.Resource}
}

// join adds segments to a URL. Each is escaped, so that no value can add a segment.
func join(base *url.URL, segments ...string) *url.URL {
	var plain, raw strings.Builder
	plain.WriteString(base.Path)
	raw.WriteString(base.EscapedPath())
	for _, s := range segments {
		plain.WriteString("/" + s)
		raw.WriteString("/" + url.PathEscape(s))
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: plain.String(), RawPath: raw.String()}
}

func (c *Client) post(ctx context.Context, caller Caller, workspace, group, resource string, in, out any) Answer {
	body, err := json.Marshal(in)
	if err != nil {
		return Answer{Err: fmt.Errorf("encoding a review: %w", err)}
	}
	return c.do(ctx, caller, http.MethodPost, join(c.base, "clusters", workspace, "apis", group, "v1", resource), acceptObject, body, out)
}

// do asks kcp as a caller with a token.
func (c *Client) do(ctx context.Context, caller Caller, method string, u *url.URL, accept string, body []byte, out any) Answer {
	if caller.IsZero() {
		return Answer{Outcome: Unauthorized}
	}
	req := newRequest(ctx, method, u, accept, body)
	caller.authenticate(req.Header)
	return roundTrip(c.transport, req, out)
}

func newRequest(ctx context.Context, method string, u *url.URL, accept string, body []byte) *http.Request {
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
	return req
}

// roundTrip asks and decodes a good answer into out. It uses the transport itself: a client would
// follow redirects, and a redirect must never carry a credential to another place.
func roundTrip(transport http.RoundTripper, req *http.Request, out any) Answer {
	res, err := transport.RoundTrip(req)
	if err != nil {
		return Answer{Err: fmt.Errorf("asking kcp: %w", err)}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		// What kcp says in words is for the caller to ask kcp; only the code decides.
		_, _ = io.CopyN(io.Discard, res.Body, maxDrainBytes)
		return refusal(res)
	}
	return decode(res, out)
}

// decode reads a good answer.
func decode(res *http.Response, out any) Answer {
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
