// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"

	"github.com/sandbar-dev/sandbar/dataplane/podexec"
)

// apiServer goes through the runtime cluster's API server, with the provider's credential: to
// ports of Pods by their proxy subresource (podproxy.go), and to the other subresources of Pods.
type apiServer struct {
	base url.URL
	http.RoundTripper
	pool *http.Transport
	// credentials are how pods are shown that requests are ours, for those that had one lately.
	credentials *lru.Cache[credentialKey, *credential]
	// containers are those of which it is known whether they have env.
	containers *lru.Cache[container, podexec.Knowledge]
}

// newAPIServer makes the transport with client-go's credentials but without its debug wrappers,
// which write headers, and with them control tokens, to the log at high verbosity.
func newAPIServer(cfg *rest.Config) (*apiServer, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the runtime API server: %w", err)
	}
	tc, err := cfg.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the credentials for the runtime API server: %w", err)
	}
	tlsConfig, err := clienttransport.TLSConfigFor(tc)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of the runtime API server: %w", err)
	}
	if tlsConfig != nil {
		// HTTP/1.1 only: an upgrade needs a connection of its own, and streams of all
		// tenants on one HTTP/2 connection would wait for each other.
		tlsConfig.NextProtos = []string{"http/1.1"}
	}
	pool := &http.Transport{
		Proxy:                  cfg.Proxy,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        60 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxPodHeaderBytes,
		DisableCompression:     true,
	}
	authenticated, err := authenticate(tc, pool)
	if err != nil {
		return nil, err
	}
	credentials, _ := lru.New[credentialKey, *credential](maxCredentials) // fails only for a size below one
	containers, _ := lru.New[container, podexec.Knowledge](maxContainers)
	return &apiServer{
		credentials: credentials, containers: containers, base: url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimRight(base.Path, "/")},
		RoundTripper: authenticated, pool: pool,
	}, nil
}

func authenticate(tc *clienttransport.Config, rt http.RoundTripper) (http.RoundTripper, error) {
	if tc.WrapTransport != nil {
		rt = tc.WrapTransport(rt)
	}
	switch {
	case tc.HasTokenAuth():
		withToken, err := clienttransport.NewBearerAuthWithRefreshRoundTripper(tc.BearerToken, tc.BearerTokenFile, rt)
		if err != nil {
			return nil, fmt.Errorf("reading the token for the runtime API server: %w", err)
		}
		rt = withToken
	case tc.HasBasicAuth():
		rt = clienttransport.NewBasicAuthRoundTripper(tc.Username, tc.Password, rt)
	}
	return rt, nil
}

// CloseIdleConnections lets go of the connections that no request uses.
func (a *apiServer) CloseIdleConnections() { a.pool.CloseIdleConnections() }
