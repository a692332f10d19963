// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/tenant"
)

var anOwner = placement.Owner{Cluster: "cluster1", UID: "uid-demo"}

func TestChangedWorkspacesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(nil, nil, Options{CacheSize: 10, Concurrency: 1}, nil, NewMetrics(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		q := Question{Caller: tenant.Bearer("t"), Verb: "get"}
		keep := func() { a.keep(q.key(), answer{grant: Grant{Owner: anOwner}, asked: time.Now()}) }
		kept := func() bool { _, ok := a.cached(q.key(), time.Time{}); return ok }
		keep()
		time.Sleep(time.Millisecond)
		a.Forget(anOwner.Cluster, time.Now())
		if kept() {
			t.Error("an answer from before the change counts")
		}
		time.Sleep(time.Millisecond)
		keep()
		if !kept() {
			t.Error("an answer from after the change does not count")
		}
		if _, ok := a.cached(q.key(), time.Now().Add(time.Nanosecond)); ok {
			t.Error("an answer is newer than it is")
		}
		for i := range changedClusters {
			a.Forget(string(rune(i+1000)), time.Now())
		}
		if kept() || a.changed.Len() != changedClusters {
			t.Errorf("more changes than are remembered: the answers stay, or %d changes do", a.changed.Len())
		}
	})
}
