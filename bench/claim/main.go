// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command claim measures how long a Sandbox takes from create to Ready, as its tenant sees it, when a
// SandboxSet has one ready, next to a Sandbox of the same template that is started cold: one after the other
// in turns, so that what the machine does meets both alike, and then many at once. A Sandbox that did not
// start as it should ends the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

const (
	warm = "Warm"
	cold = "Cold"
	// pool is the name of the set and of its template.
	pool = "pool"
)

func main() {
	sequence := flag.Int("n", 30, "how many of each one after the other")
	burst := flag.Int("burst", 20, "how many of each at once")
	stage.Main("claim", func(ctx context.Context, stack, results string) error {
		return run(ctx, stack, results, *sequence, *burst)
	})
}

func run(ctx context.Context, name, results string, sequence, burst int) (err error) {
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
	refill, err := fill(ctx, tenant, burst)
	if err != nil {
		return err
	}
	serial, atOnce := map[string][]time.Duration{}, map[string][]time.Duration{}
	var alone []time.Duration
	var where []report.Line
	for _, group := range []struct {
		name string
		of   func(ways *ways) error
	}{
		{"sequence", func(w *ways) error { return measureSequence(ctx, tenant, sequence, serial, w) }},
		{"burst", func(w *ways) error { return measureBursts(ctx, tenant, burst, atOnce, w) }},
		{"alone", func(w *ways) (err error) { alone, err = measureAlone(ctx, tenant, burst, w); return err }},
	} {
		lines, err := watched(ctx, provider, group.name, group.of)
		if err != nil {
			return err
		}
		where = append(where, lines...)
	}
	samples := map[string][]float64{}
	for group, all := range map[string]map[string][]time.Duration{"sequence": serial, "burst": atOnce, "alone": {warm: alone}} {
		for kind, took := range all {
			for _, d := range took {
				samples[kind+"-"+group+"/ms"] = append(samples[kind+"-"+group+"/ms"], report.Milliseconds(d))
			}
		}
	}
	return report.Write(os.Stdout, results, "claim", samples, append([]report.Line{
		line("claim", serial), line("claim-burst", atOnce),
		{Name: "claim-alone", Fields: warmFields(alone)},
		{Name: "claim-refill", Fields: []report.Field{{Key: "members", Value: burst}, {Key: "per_s", Value: float64(burst) / refill.Seconds()}}},
	}, where...)...)
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

// measureSequence measures warm and cold starts in turns.
func measureSequence(ctx context.Context, tenant *stage.Tenant, n int, serial map[string][]time.Duration, w *ways) error {
	for i := range n {
		for _, kind := range []string{warm, cold} {
			took, err := measure(ctx, tenant, kind, fmt.Sprint("seq-", i), w, nothing)
			if err != nil {
				return err
			}
			serial[kind] = append(serial[kind], took)
			fmt.Fprintf(os.Stderr, "%s %d/%d: %v\n", kind, i+1, n, took.Round(time.Millisecond))
		}
	}
	return nil
}

// measureBursts measures many warm starts at once, and then many cold ones.
func measureBursts(ctx context.Context, tenant *stage.Tenant, n int, atOnce map[string][]time.Duration, w *ways) (err error) {
	for _, kind := range []string{warm, cold} {
		if err := waitFull(ctx, tenant, n); err != nil {
			return err
		}
		if atOnce[kind], err = measureBurst(ctx, tenant, kind, n, w); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the template and the set, and returns how long the set took until it was full.
func fill(ctx context.Context, tenant *stage.Tenant, members int) (time.Duration, error) {
	template := object("SandboxTemplate", pool, map[string]any{"template": map[string]any{"spec": map[string]any{
		"terminationGracePeriodSeconds": int64(1),
		"containers": []any{map[string]any{
			"name": "main", "image": "localhost/sandbar/toolchain-node:dev", "command": []any{"sleep", "1000000"},
			"resources": map[string]any{"requests": map[string]any{"cpu": "1m", "memory": "8Mi"}},
		}},
	}}})
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
	err := waitFull(ctx, tenant, members)
	return time.Since(began), err
}

// waitFull waits until the set has as many sandboxes as it should that can be taken.
func waitFull(ctx context.Context, tenant *stage.Tenant, members int) error {
	return stage.Insist(ctx, func(ctx context.Context) error {
		set, err := tenant.Sets.Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(set.Object, "status", "availableReplicas"); n != int64(members) {
			return fmt.Errorf("the set has %d of %d", n, members)
		}
		return nil
	})
}

func object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "sandbar.dev/v1alpha1", "kind": kind, "spec": spec}}
	obj.SetName(name)
	return obj
}

// measureAlone takes all members of the set, one after the other, while the set makes no others.
func measureAlone(ctx context.Context, tenant *stage.Tenant, members int, w *ways) (all []time.Duration, err error) {
	if err := waitFull(ctx, tenant, members); err != nil {
		return nil, err
	}
	if err := pause(ctx, tenant, true); err != nil {
		return nil, err
	}
	for i := range members {
		took, err := measure(ctx, tenant, warm, fmt.Sprint("alone-", i), w, nothing)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, pause(ctx, tenant, false)
}

func pause(ctx context.Context, tenant *stage.Tenant, paused bool) error {
	_, err := tenant.Sets.Patch(ctx, pool, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused), metav1.PatchOptions{})
	return err
}

func nothing() {}

// measure makes a Sandbox that starts warm, or cold, and returns the time to Ready; a warm one's way is noted. The Sandbox is
// deleted once meanwhile returns.
func measure(ctx context.Context, tenant *stage.Tenant, kind, name string, w *ways, meanwhile func()) (time.Duration, error) {
	spec := map[string]any{"template": map[string]any{"templateRef": map[string]any{"kind": "SandboxTemplate", "name": pool}}}
	if kind == cold {
		spec["prewarm"] = "None"
	}
	var was *unstructured.Unstructured
	took, err := stage.WayToReady(ctx, tenant.Sandboxes, object("Sandbox", "c-"+name, spec), func(is *unstructured.Unstructured) error {
		if started, _, _ := unstructured.NestedString(is.Object, "status", "start", "type"); started != kind {
			return fmt.Errorf("it started %q, and not %s", started, kind)
		}
		was = is
		meanwhile()
		return nil
	})
	if err == nil && kind == warm {
		err = w.add(took, was)
	}
	return took.Ready, err
}

// measureBurst makes n at once and returns how long each took. None is deleted before all are Ready.
func measureBurst(ctx context.Context, tenant *stage.Tenant, kind string, n int, w *ways) ([]time.Duration, error) {
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		all   []time.Duration
		first error
	)
	var ready sync.WaitGroup
	ready.Add(n)
	for i := range n {
		wait.Go(func() {
			one := sync.OnceFunc(ready.Done)
			defer one() // also when it fails
			took, err := measure(ctx, tenant, kind, fmt.Sprint("burst-", i), w, func() {
				one()
				ready.Wait()
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			all = append(all, took)
		})
	}
	wait.Wait()
	return all, first
}

func line(name string, took map[string][]time.Duration) report.Line {
	p50, coldP50 := report.Percentile(took[warm], 50), report.Percentile(took[cold], 50)
	return report.Line{Name: name, Fields: append(warmFields(took[warm]),
		report.Field{Key: "cold_p50_ms", Value: report.Milliseconds(coldP50)},
		report.Field{Key: "cold_p99_ms", Value: report.Milliseconds(report.Percentile(took[cold], 99))},
		report.Field{Key: "ratio", Value: float64(p50) / float64(coldP50)},
	)}
}

func warmFields(took []time.Duration) []report.Field {
	return []report.Field{
		{Key: "p50_ms", Value: report.Milliseconds(report.Percentile(took, 50))},
		{Key: "p99_ms", Value: report.Milliseconds(report.Percentile(took, 99))},
		{Key: "n", Value: len(took)},
	}
}
