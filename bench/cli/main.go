// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command cli measures what a person waits for the command line: until sandbar --help has printed, and until sandbar
// get has listed 1,000 objects, next to kubectl get of the same objects in the same run, in turns. kubectl is a program
// of its own, built from the stack's version of Kubernetes, and has its discovery cached, as a person's has.
//
// The objects are SandboxRunners of a workspace whose provider does not run, so that nothing is made of them and
// nothing else uses the machine.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// The subjects, as the keys of the samples name them.
const (
	ownHelp     = "sandbar-help"
	ownList     = "sandbar-get"
	kubectlHelp = "kubectl-help"
	kubectlList = "kubectl-get"
)

func main() {
	n := flag.Int("n", 40, "how often each command is run")
	objects := flag.Int("objects", 1000, "how many objects are listed")
	sandbar := flag.String("sandbar", "bin/sandbar", "the command line that is measured")
	kubectl := flag.String("kubectl", "bin/kubectl", "the kubectl that it is compared with")
	stage.Main("cli", func(ctx context.Context, stack, results string) error {
		return run(ctx, stack, results, plan{*n, *objects, *sandbar, *kubectl})
	})
}

// plan is what the flags say.
type plan struct {
	n, objects       int
	sandbar, kubectl string
}

func run(ctx context.Context, name, results string, p plan) (err error) {
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
	if err := provider.Stop(); err != nil {
		return fmt.Errorf("stopping the provider: %w", err)
	}
	if err := p.fill(ctx, tenant); err != nil {
		return err
	}
	home, err := os.MkdirTemp(stack.Dir, "bench-home-")
	if err != nil {
		return fmt.Errorf("making a home: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	env, err := tenant.Environment(stack, home)
	if err != nil {
		return err
	}
	took, err := p.measure(ctx, env)
	if err != nil {
		return err
	}
	samples := map[string][]float64{}
	for subject, all := range took {
		for _, d := range all {
			samples[subject+"/ms"] = append(samples[subject+"/ms"], report.Milliseconds(d))
		}
	}
	return report.Write(os.Stdout, results, "cli", samples, line(took, p))
}

// fill makes the objects.
func (p plan) fill(ctx context.Context, tenant *stage.Tenant) error {
	fmt.Fprintf(os.Stderr, "making %d objects\n", p.objects)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range p.objects {
		group.Go(func() error {
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner",
				"metadata": map[string]any{"name": fmt.Sprintf("bench-%04d", i), "labels": map[string]any{"env": "bench"}},
				"spec":     map[string]any{"projectRef": "bench"},
			}}
			if _, err := tenant.Runners.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("making object %d: %w", i, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// warmUp is how many turns are not measured: kubectl fills its cache, and files come from memory.
const warmUp = 3

// measure runs the commands in turns.
func (p plan) measure(ctx context.Context, env []string) (map[string][]time.Duration, error) {
	subjects := []struct {
		name string
		args []string
		// lines are those that it has to print; 0 means at least one.
		lines int
	}{
		{ownHelp, []string{p.sandbar, "--help"}, 0},
		{kubectlHelp, []string{p.kubectl, "--help"}, 0},
		{ownList, []string{p.sandbar, "get", "sandboxrunners"}, p.objects + 1},
		{kubectlList, []string{p.kubectl, "get", "sandboxrunners"}, p.objects + 1},
	}
	took := map[string][]time.Duration{}
	for turn := range p.n + warmUp {
		for _, s := range subjects {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(ctx, s.args[0], s.args[1:]...)
			cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &errs
			began := time.Now()
			err := cmd.Run()
			d := time.Since(began)
			if err != nil {
				return nil, fmt.Errorf("running %s: %w: %s", s.name, err, &errs)
			}
			if lines := bytes.Count(out.Bytes(), []byte("\n")); lines == 0 || s.lines > 0 && lines != s.lines {
				return nil, fmt.Errorf("%s printed %d lines, want %d: %s", s.name, lines, s.lines, &errs)
			}
			if turn >= warmUp {
				took[s.name] = append(took[s.name], d)
			}
		}
		fmt.Fprintf(os.Stderr, "turn %d/%d\n", turn+1, p.n+warmUp)
	}
	return took, nil
}

func line(took map[string][]time.Duration, p plan) report.Line {
	figure := func(subject string, percentile float64) float64 {
		return report.Milliseconds(report.Percentile(took[subject], percentile))
	}
	return report.Line{Name: "cli", Fields: []report.Field{
		{Key: "start_ms", Value: figure(ownHelp, 50)},
		{Key: fmt.Sprintf("list%d_ms", p.objects), Value: figure(ownList, 50)},
		{Key: "vs_kubectl", Value: figure(ownList, 50) / figure(kubectlList, 50)},
		{Key: "start_p99_ms", Value: figure(ownHelp, 99)},
		{Key: fmt.Sprintf("list%d_p99_ms", p.objects), Value: figure(ownList, 99)},
		{Key: "kubectl_start_ms", Value: figure(kubectlHelp, 50)},
		{Key: fmt.Sprintf("kubectl_list%d_ms", p.objects), Value: figure(kubectlList, 50)},
		{Key: "n", Value: p.n},
	}}
}
