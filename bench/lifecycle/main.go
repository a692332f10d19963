// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command lifecycle measures how long a SandboxRunner takes to be suspended and resumed, as its
// tenant sees it, next to scaling a copy of the same Deployment by hand in the same run, in
// turns; how long callers wait who all at once call an instance that sleeps; and what instances
// that sleep cost the provider.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// options are the sizes of a run.
type options struct {
	rounds         int
	wakes, callers int
	idle           int
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 15, "how often each is suspended and resumed")
	flag.IntVar(&o.wakes, "wakes", 5, "how often the instance is woken")
	flag.IntVar(&o.callers, "callers", 50, "how many callers wake it at once")
	flag.IntVar(&o.idle, "idle", 1000, "how many instances sleep")
	stage.Main("lifecycle", func(ctx context.Context, stack, results string) error { return run(ctx, stack, results, o) })
}

// measured is what a run yields.
type measured struct {
	suspend, resume         []time.Duration
	bareSuspend, bareResume []time.Duration
	wake                    []time.Duration
	lost                    int
	idle                    idleCost
}

func run(ctx context.Context, name, results string, o options) (err error) {
	stack, err := local.Find(ctx, name)
	if err != nil {
		return err
	}
	provider, err := stack.StartProvider(ctx, local.ProviderOptions{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Stop()) }()
	tenant, err := stage.NewTenant(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tenant.Close()) }()
	var m measured
	if err := m.cycles(ctx, stack, provider, tenant, o); err != nil {
		return err
	}
	if m.idle, err = measureIdle(ctx, stack, provider, tenant, o.idle); err != nil {
		return err
	}
	return report.Write(os.Stdout, results, "lifecycle", m.samples(), m.line(o))
}

// cycles suspends and resumes both in turns, so that what the machine does meets both alike, and
// then wakes ours.
func (m *measured) cycles(ctx context.Context, stack *local.Stack, provider *local.Provider, tenant *stage.Tenant, o options) error {
	box, err := newSandbox(ctx, stack, provider, tenant)
	if err != nil {
		return err
	}
	bare, err := copyDeployment(ctx, box)
	if err != nil {
		return err
	}
	defer bare.remove()
	for i := range o.rounds + 1 {
		outOfStep()
		suspended, resumed, err := box.cycle(ctx)
		if err != nil {
			return err
		}
		outOfStep()
		bareSuspended, bareResumed, err := bare.cycle(ctx)
		if err != nil {
			return err
		}
		if i == 0 {
			continue // warm-up
		}
		fmt.Fprintf(os.Stderr, "round %d/%d: suspend %v, bare %v; resume %v, bare %v\n", i, o.rounds,
			suspended.Round(time.Millisecond), bareSuspended.Round(time.Millisecond),
			resumed.Round(time.Millisecond), bareResumed.Round(time.Millisecond))
		m.suspend, m.resume = append(m.suspend, suspended), append(m.resume, resumed)
		m.bareSuspend, m.bareResume = append(m.bareSuspend, bareSuspended), append(m.bareResume, bareResumed)
	}
	for i := range o.wakes {
		took, lost, err := box.wake(ctx, o.callers)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "wake %d/%d: p50 %v, lost %d\n", i+1, o.wakes, report.Percentile(took, 50).Round(time.Millisecond), lost)
		m.wake, m.lost = append(m.wake, took...), m.lost+lost
	}
	return nil
}

// outOfStep waits for a random part of a second. The kubelet looks at its containers once a second, and
// a pod begins to serve and is gone when it looks. A change that always came at the same moment between
// two looks would be a second faster or slower for a difference of milliseconds.
func outOfStep() { time.Sleep(rand.N(time.Second)) } //nolint:gosec // no secret

// line gives the time that waking adds as what the callers waited beyond the time that the bare
// Deployment's pod takes, which nobody can save.
func (m *measured) line(o options) report.Line {
	ms := func(d []time.Duration, p float64) float64 { return report.Milliseconds(report.Percentile(d, p)) }
	return report.Line{Name: "lifecycle", Fields: []report.Field{
		{Key: "suspend_p50_ms", Value: ms(m.suspend, 50)},
		{Key: "suspend_p99_ms", Value: ms(m.suspend, 99)},
		{Key: "bare_suspend_p50_ms", Value: ms(m.bareSuspend, 50)},
		{Key: "resume_p50_ms", Value: ms(m.resume, 50)},
		{Key: "resume_p99_ms", Value: ms(m.resume, 99)},
		{Key: "bare_resume_p50_ms", Value: ms(m.bareResume, 50)},
		{Key: "resume_ratio", Value: ms(m.resume, 50) / ms(m.bareResume, 50)},
		{Key: "wake_p50_ms", Value: ms(m.wake, 50)},
		{Key: "wake_p99_ms", Value: ms(m.wake, 99)},
		{Key: "wake_added_p50_ms", Value: ms(m.wake, 50) - ms(m.bareResume, 50)},
		{Key: "wake_lost", Value: m.lost},
		{Key: "callers", Value: o.callers},
		{Key: "idle_cost_kib", Value: m.idle.kib},
		{Key: "idle_live_kib", Value: m.idle.liveKiB},
		{Key: "idle_reconciles_per_minute", Value: m.idle.reconciles},
		{Key: "idle_instances", Value: o.idle},
		{Key: "n", Value: o.rounds},
	}}
}

func (m *measured) samples() map[string][]float64 {
	samples := map[string][]float64{}
	for name, took := range map[string][]time.Duration{
		"suspend/ms": m.suspend, "resume/ms": m.resume,
		"bare-suspend/ms": m.bareSuspend, "bare-resume/ms": m.bareResume, "wake/ms": m.wake,
	} {
		for _, d := range took {
			samples[name] = append(samples[name], report.Milliseconds(d))
		}
	}
	return samples
}
