// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command claim measures how long a Sandbox takes from create to Ready, as its tenant sees it, when a SandboxSet has one
// ready: created as such, by a SandboxClaim and by the verb claim, next to one of the same template that is started cold,
// and next to a claim of Kubernetes' agent-sandbox, whose controllers run beside the provider on the same API server with
// a pool of the same pod and size. One after the other in turns, so that what the machine does meets all alike; many at
// once; and at a rate. A Sandbox that did not start as it should ends the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// pool is the name of the set and of its template.
const pool = "pool"

// sizes are how much is measured.
type sizes struct {
	// sequence is how many of each are measured one after the other, burst how many at once.
	sequence, burst int
	// rate is how many are claimed in a second, for so many seconds. The pools have as many ready as are claimed.
	rate, seconds int
	// anchor is whether agent-sandbox is measured, too.
	anchor bool
}

func main() {
	var size sizes
	flag.IntVar(&size.sequence, "n", 30, "how many of each one after the other")
	flag.IntVar(&size.burst, "burst", 20, "how many of each at once")
	flag.IntVar(&size.rate, "rate", 10, "how many in a second, at a rate")
	flag.IntVar(&size.seconds, "seconds", 8, "for how many seconds at that rate; a node has room for 250 pods")
	flag.BoolVar(&size.anchor, "anchor", true, "measure agent-sandbox, too")
	stage.Main("claim", func(ctx context.Context, stack, results string) error { return run(ctx, stack, results, size) })
}

func run(ctx context.Context, name, results string, size sizes) (err error) {
	stack, err := local.Find(ctx, name)
	if err != nil {
		return err
	}
	provider, err := stack.StartProvider(ctx, local.ProviderOptions{Log: os.Stderr})
	if err != nil {
		return err
	}
	tenant, err := stage.NewTenant(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tenant.Close()) }()
	refill, err := fill(ctx, tenant, size.burst)
	if err != nil {
		return err
	}
	s, err := newSubjects(ctx, provider, tenant, size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	took := &durations{}
	var where []report.Line
	for _, group := range []struct {
		name    string
		measure func(context.Context, *ways, *durations) error
	}{{"sequence", s.sequence}, {"burst", s.bursts}, {"alone", s.alone}, {"beside", s.beside}, {"rate", s.rates}} {
		lines, err := watched(ctx, provider, group.name, func(w *ways) error { return group.measure(ctx, w, took) })
		if err != nil {
			return fmt.Errorf("%s: %w", group.name, err)
		}
		where = append(where, lines...)
	}
	lines := append(took.lines(), report.Line{
		Name: "claim-refill", Fields: []report.Field{{Key: "members", Value: size.burst}, {Key: "per_s", Value: float64(size.burst) / refill.Seconds()}},
	})
	return report.Write(os.Stdout, results, "claim", took.samples(), append(lines, where...)...)
}

// watched measures a group of starts, and where the time of the warm ones goes.
func watched(ctx context.Context, provider *local.Provider, group string, measure func(*ways) error) ([]report.Line, error) {
	before, err := steps(ctx, provider)
	if err != nil {
		return nil, err
	}
	var w ways
	if err := measure(&w); err != nil {
		return nil, err
	}
	after, err := steps(ctx, provider)
	if err != nil {
		return nil, err
	}
	return w.lines(group, before, after), nil
}

// fill makes the template and the set, and returns how long the set took until it was full.
func fill(ctx context.Context, tenant *stage.Tenant, members int) (time.Duration, error) {
	template := object("SandboxTemplate", pool, map[string]any{"template": map[string]any{"spec": podSpec()}})
	set := object("SandboxSet", pool, map[string]any{
		"replicas": int64(members), "templateRef": map[string]any{"name": pool}, "scaleStrategy": map[string]any{"maxUnavailable": "100%"},
	})
	began := time.Now()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := tenant.Templates.Create(ctx, template, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			began = time.Now()
			_, err := tenant.Sets.Create(ctx, set, metav1.CreateOptions{})
			return err
		},
	} {
		if err := stage.Insist(ctx, step); err != nil {
			return 0, err
		}
	}
	err := waitFull(ctx, tenant, members, 0)
	return time.Since(began), err
}

// podSpec is that of all pods here.
func podSpec() map[string]any {
	return map[string]any{
		"terminationGracePeriodSeconds": int64(1),
		"automountServiceAccountToken":  false,
		"containers": []any{map[string]any{
			"name": "main", "image": "localhost/sandbar/toolchain-node:dev", "command": []any{"sleep", "1000000"},
			"resources": map[string]any{"requests": map[string]any{"cpu": "1m", "memory": "8Mi"}},
		}},
	}
}

// waitFull waits until the set has as many sandboxes as it should that can be taken, after so many were taken: its status is
// written once a second at most, and may be from before.
func waitFull(ctx context.Context, tenant *stage.Tenant, members int, taken int64) error {
	return stage.Insist(ctx, func(ctx context.Context) error {
		set, err := tenant.Sets.Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(set.Object, "status", "availableReplicas"); n != int64(members) {
			return fmt.Errorf("the set has %d of %d", n, members)
		}
		if n, _, _ := unstructured.NestedInt64(set.Object, "status", "claimed", "total"); n < taken {
			return fmt.Errorf("the set counts %d of %d that were taken", n, taken)
		}
		return nil
	})
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": kind, "spec": spec}}
	obj.SetName(name)
	return obj
}

// resize sets how many a set, or a pool, keeps ready.
func resize(ctx context.Context, pools dynamic.ResourceInterface, members int) error {
	_, err := pools.Patch(ctx, pool, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, members), metav1.PatchOptions{})
	return err
}

func pause(ctx context.Context, tenant *stage.Tenant, paused bool) error {
	_, err := tenant.Sets.Patch(ctx, pool, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused), metav1.PatchOptions{})
	return err
}
