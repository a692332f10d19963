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
	over := make(chan struct{}) // a handler that ends with its caller would answer before the connection is closed
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer server.Close()
	defer close(over)
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
