// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// Probe asks a data plane whether it is there, without any credential: its certificate has to be one of
// CABundle, or of the roots of the system without a bundle, and its answer that of a data plane. The way to it is that
// to the workspace, through the same proxy; without a workspace it is the environment's.
func (d DataPlane) Probe(ctx context.Context, workspace *rest.Config) error {
	roots, err := rootsOf(d.CABundle)
	if err != nil {
		return fmt.Errorf("reading the CA bundle of %s: %w", d.URL, err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	client := &http.Client{
		Transport: &http.Transport{
			Proxy: proxyOf(workspace), TLSHandshakeTimeout: fetchTimeout, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(d.URL, "/")+caPath, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", d.URL, err)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", d.URL, err)
	}
	defer res.Body.Close()
	var status struct {
		Kind string `json:"kind"`
	}
	// One whose certificate the system's roots verify has no bundle to give, and says so as an API server does.
	if res.StatusCode != http.StatusOK && (json.NewDecoder(io.LimitReader(res.Body, maxBundle)).Decode(&status) != nil || status.Kind != "Status") {
		return fmt.Errorf("%s answers %d and is no data plane of Sandbar: look at the URL in the binding (sandbar trust lists it)", d.URL, res.StatusCode)
	}
	return nil
}
