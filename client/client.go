// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	validate "k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// DataPlane is a data plane that may get the caller's credential.
type DataPlane struct {
	// URL is its base URL, for example "https://sandboxes.example.com". Verbs of instances
	// whose status names the same scheme, host and port are sent there.
	URL string `json:"url"`
	// CABundle is the PEM bundle that verifies it; empty for the system's roots.
	CABundle []byte `json:"caBundle,omitempty"`
	// Servers are the servers of workspaces, as scheme, host and port, whose credentials it may get; empty for
	// those of every server. See [ServerOf].
	Servers []string `json:"servers,omitempty"`
}

// ServerOf is the server of a workspace as [DataPlane].Servers names it: its scheme, host and port.
func ServerOf(workspace *rest.Config) string {
	u, err := url.Parse(workspace.Host)
	if err != nil || u.Host == "" {
		return workspace.Host
	}
	return origin(u)
}

// IsFor reports whether the data plane may get the credential of a workspace. The attack: a person trusts a provider of a
// small kcp with the token of that one, and a provider in another kcp names its data plane as the address of an instance:
// the token of the other kcp would go there.
func (d DataPlane) IsFor(workspace *rest.Config) bool {
	return len(d.Servers) == 0 || slices.Contains(d.Servers, ServerOf(workspace))
}

// UntrustedError means that an instance's data plane is none of those that may get the caller's
// credential. Nothing was sent to it.
type UntrustedError struct {
	// Origin is the scheme, host and port that the instance's status names.
	Origin string
}

// Error implements error.
func (e *UntrustedError) Error() string {
	return fmt.Sprintf("the data plane %s is not trusted with your credential", e.Origin)
}

// Client calls verbs of instances in one workspace as one caller. It is safe for concurrent use.
type Client struct {
	objects dynamic.Interface
	// planes holds an HTTP client per trusted origin.
	planes map[string]*plane
}

type plane struct {
	http *http.Client
	pool *http.Transport
}

// Check tells whether the data plane can be one that gets a credential: by its URL and its bundle.
func (d DataPlane) Check() error {
	if _, err := originOf(d.URL); err != nil {
		return fmt.Errorf("reading the address of a trusted data plane: %w", err)
	}
	_, err := rootsOf(d.CABundle)
	return err
}

// New makes a Client. workspace leads to the tenant's workspace with the caller's credential: a
// bearer token, a token file or an exec plugin. Client certificates are no credential for a data
// plane, since they do not reach kcp through it. Of the data planes, those count that are for the
// workspace's server (IsFor). It fails for a configuration that impersonates somebody: a data plane
// knows no impersonation, and would act as the caller.
func New(workspace *rest.Config, trusted ...DataPlane) (*Client, error) {
	if as := workspace.Impersonate.UserName; as != "" {
		return nil, fmt.Errorf("the kubeconfig acts as %q, and a data plane would act as yourself: use a credential of that user", as)
	}
	objects, err := dynamic.NewForConfig(WithoutRedirects(workspace))
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	c := &Client{objects: objects, planes: map[string]*plane{}}
	for _, t := range trusted {
		if !t.IsFor(workspace) {
			continue
		}
		origin, err := originOf(t.URL)
		if err != nil {
			return nil, fmt.Errorf("reading the address of a trusted data plane: %w", err)
		}
		if c.planes[origin], err = newPlane(workspace, t.CABundle); err != nil {
			return nil, fmt.Errorf("preparing for the data plane %s: %w", origin, err)
		}
	}
	return c, nil
}

// Close drops idle connections.
func (c *Client) Close() {
	for _, p := range c.planes {
		p.pool.CloseIdleConnections()
	}
}

func newPlane(workspace *rest.Config, caBundle []byte) (*plane, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if tlsConfig.RootCAs, err = rootsOf(caBundle); err != nil {
		return nil, err
	}
	pool := &http.Transport{
		Proxy:                 proxyOf(workspace),
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   10 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		// A connection that died silently must not leave a follow hanging for ever.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
	authenticated, err := rest.HTTPWrappersForConfig(credentialOf(workspace), pool)
	if err != nil {
		return nil, fmt.Errorf("reading the caller's credential: %w", err)
	}
	return &plane{pool: pool, http: &http.Client{
		Transport: authenticated,
		// A redirect would take the credential with it, or the body of a POST.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// proxyOf is the way to a data plane: the proxy-url that a kubeconfig has for the workspace, since both are in the
// provider's network, and the environment's proxies (HTTPS_PROXY, NO_PROXY) if it has none.
func proxyOf(workspace *rest.Config) func(*http.Request) (*url.URL, error) {
	if workspace != nil && workspace.Proxy != nil {
		return workspace.Proxy
	}
	return http.ProxyFromEnvironment
}

// rootsOf are the roots of a bundle; nil, the system's, for an empty one.
func rootsOf(caBundle []byte) (*x509.CertPool, error) {
	if len(caBundle) == 0 {
		return nil, nil //nolint:nilnil // what package tls takes for the system's roots
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(caBundle) {
		return nil, errors.New("the CA bundle holds no PEM certificate")
	}
	return roots, nil
}

// credentialOf is the configuration with the credential alone.
func credentialOf(cfg *rest.Config) *rest.Config {
	return &rest.Config{
		Host: cfg.Host, BearerToken: cfg.BearerToken, BearerTokenFile: cfg.BearerTokenFile,
		ExecProvider: cfg.ExecProvider, AuthProvider: cfg.AuthProvider, UserAgent: cfg.UserAgent,
	}
}

// planeAt is the data plane at an address and the address. One that is not trusted is an [UntrustedError]: it does not get
// the caller's credential.
func (c *Client) planeAt(address string) (*plane, *url.URL, error) {
	origin, err := originOf(address)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of a data plane: %w", err)
	}
	p := c.planes[origin]
	if p == nil {
		return nil, nil, &UntrustedError{Origin: origin}
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of a data plane: %w", err)
	}
	return p, u, nil
}

// ErrSegment means that a text cannot be the name of a workspace, of a namespace or of an object. Nothing was sent.
var ErrSegment = errors.New("it is not a name: a name is not empty, not . or .., and has no slash and no percent sign")

// checkSegments refuses names that cannot be a segment of a path. The attack: a program passes on a name that somebody else
// chose, such as ../sandboxes/x/proxy, and the caller's credential goes to another verb than the program's.
func checkSegments(names ...string) error {
	for _, name := range names {
		if name == "" || len(validate.IsPathSegmentName(name)) > 0 {
			return fmt.Errorf("%q: %w", name, ErrSegment)
		}
	}
	return nil
}

// originOf is the scheme, host and port of an https URL, in lower case and with the port.
func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("reading a URL: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", fmt.Errorf("%q is not an https URL: a credential does not travel in the clear", address)
	}
	// The attack: a name that looks to a person like one that they trust, with a letter of another script.
	if strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%q has a host with other signs than those of ASCII: write it as it is looked up (xn--…)", address)
	}
	return origin(u), nil
}

// origin is the scheme, host and port of an http or https URL, in lower case and with the port.
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
