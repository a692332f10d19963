// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
)

// unwatchable is a runtime cluster whose kinds cannot be watched.
type unwatchable struct {
	cluster.Cluster

	client client.Client
	err    error
}

func (u unwatchable) GetClient() client.Client    { return u.client }
func (u unwatchable) GetAPIReader() client.Reader { return u.client }
func (u unwatchable) GetCache() cache.Cache       { return noInformers{err: u.err} }

// noInformers is a cache that gives no informer.
type noInformers struct {
	cache.Cache

	err error
}

func (n noInformers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, n.err
}

func (n noInformers) RemoveInformer(context.Context, client.Object) error { return nil }

// A kind that could not be started was tried again every few seconds, and each attempt left the
// goroutines of its queue behind.
func TestAKindThatCannotBeStartedLeavesNothingRunning(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	runtime := unwatchable{client: fake.NewClientBuilder().Build(), err: errors.New("no such kind")}
	config := runnerConfig{
		kcp: &rest.Config{}, runtime: runtime, concurrency: 1, capacity: newCapacity(), log: logr.Discard(),
		replicas: serving.New(runtime.client, runtime.client, &inuse.Clock{}, logr.Discard()),
	}
	if _, err := startRunner(t.Context(), config, fixture.Thing, scope.Settings{}); !errors.Is(err, runtime.err) {
		t.Fatalf("error %v", err)
	}
	goleak.VerifyNone(t, leaks)
}
