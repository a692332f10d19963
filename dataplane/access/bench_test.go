// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbar-dev/sandbar/tenant"
)

// BenchmarkAuthorizeCached is a decision from the cache: the whole of what authorization adds to a
// request whose caller asked a moment ago.
func BenchmarkAuthorizeCached(b *testing.B) {
	a, err := New(nil, nil, Options{CacheSize: 1024, Concurrency: 1}, nil, NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		b.Fatal(err)
	}
	subject := aQuestion("alice", "root:acme:dev", "log", "get")
	bearer := subject
	bearer.Caller = tenant.Bearer("eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9." + string(make([]byte, 900)))
	for name, q := range map[string]Question{"bearer": bearer, "subject": subject} {
		b.Run(name, func(b *testing.B) {
			a.answers.Add(q.key(), answer{grant: Grant{Owner: anOwner}, asked: time.Now(), expires: time.Now().Add(time.Hour)})
			b.ReportAllocs()
			for b.Loop() {
				if _, refused := a.Authorize(b.Context(), q); refused != nil {
					b.Fatal(refused)
				}
			}
		})
	}
}
