// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"net"
	"net/http"
	"testing"
)

func TestWaitHealthyReturnsOnceTheRunnerAnswers(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-refused:
		default: // the first question comes too early
			close(refused)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	if err := WaitHealthy(t.Context(), "http://"+l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-refused:
	default:
		t.Error("it did not ask")
	}
}
