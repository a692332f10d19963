// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// besideSamples names the single measurements.
const besideSamples = sandboxRunner + "-beside-refused/ms"

// besideRefused measures n creates of the tenant while another workspace has that many Sandboxes which
// ask for more than their quota, from the moment of their creation: they are tried, refused and tried
// again meanwhile.
func besideRefused(ctx context.Context, stack *local.Stack, t tenant, refused, n int) (took []time.Duration, err error) {
	neighbour, err := stage.NewTenant(ctx, stack)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, neighbour.Close()) }()
	for i := range refused {
		if _, err := neighbour.Sandboxes.Create(ctx, tooLarge(i), metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating a Sandbox that is refused: %w", err)
		}
	}
	for i := range n {
		one, err := t.measure(ctx, fmt.Sprintf("beside-%d", i))
		if err != nil {
			return nil, err
		}
		took = append(took, one)
	}
	return took, areRefused(ctx, neighbour, refused)
}

// tooLarge is a Sandbox with more processors than the quota of an instance has.
func tooLarge(i int) *unstructured.Unstructured {
	cpu := map[string]any{"cpu": "5"}
	container := map[string]any{
		"name": "main", "image": "localhost/sandbar/runner:dev", "command": []any{"sleep", "1000"},
		"resources": map[string]any{"requests": cpu, "limits": cpu},
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Sandbox",
		"spec": map[string]any{"template": map[string]any{"podTemplate": map[string]any{
			"spec": map[string]any{"containers": []any{container}},
		}}},
	}}
	obj.SetName(fmt.Sprintf("refused-%d", i))
	return obj
}

// areRefused fails unless all of the neighbour's Sandboxes were refused for their quota: else the figure
// would be that of something else.
func areRefused(ctx context.Context, neighbour *stage.Tenant, want int) error {
	list, err := neighbour.Sandboxes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	phases := map[string]int{}
	for i := range list.Items {
		phase, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "phase")
		phases[phase]++
	}
	if phases["PendingCapacity"] != want {
		return fmt.Errorf("of %d Sandboxes over quota these are in each phase: %v", want, phases)
	}
	return nil
}

func besideLine(beside, alone []time.Duration, refused int) report.Line {
	p50, aloneP50 := report.Percentile(beside, 50), report.Percentile(alone, 50)
	return report.Line{Name: "create-beside-refused", Fields: []report.Field{
		{Key: "refused", Value: refused},
		{Key: "p50_ms", Value: report.Milliseconds(p50)},
		{Key: "p99_ms", Value: report.Milliseconds(report.Percentile(beside, 99))},
		{Key: "alone_p50_ms", Value: report.Milliseconds(aloneP50)},
		{Key: "alone_p99_ms", Value: report.Milliseconds(report.Percentile(alone, 99))},
		{Key: "ratio", Value: float64(p50) / float64(aloneP50)},
		{Key: "n", Value: len(beside)},
	}}
}
