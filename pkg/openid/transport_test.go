// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestAnExchangeWithAnIssuerThatIsSilentEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	client, err := newHTTPClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	if client.Timeout != exchangeTimeout {
		t.Errorf("an exchange may take %s", client.Timeout)
	}
	client.Timeout = 50 * time.Millisecond
	res, err := client.Get(server.URL)
	if err == nil {
		_ = res.Body.Close()
		t.Error("a server that is silent has answered")
	}
}
