// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command exec measures how long it takes from asking for a command until its exit code is known:
// through Sandbar next to the exec of the pod, asked of the runtime cluster itself, with and without the mark that the
// data plane puts on a command in a pod without a runner, in turns.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/client"
)

func main() {
	n := flag.Int("n", 100, "how many commands of each")
	stage.Main("exec", func(ctx context.Context, stack, results string) error { return run(ctx, stack, results, *n) })
}

// way is one way to run a command in the sandbox.
type way struct {
	name string
	run  func(ctx context.Context, command ...string) error
}

func run(ctx context.Context, stack, results string, n int) error {
	s, err := stage.New(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	person, err := s.Person(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = person.Close() }()
	runner, err := s.Runner(ctx)
	if err != nil {
		return err
	}
	pod, err := podExec(s, runner)
	if err != nil {
		return err
	}
	// As the data plane has it for a pod without a runner (docs/adr/0048-the-end-of-a-command.md).
	marked := func(ctx context.Context, command ...string) error {
		return pod(ctx, append([]string{"env", "SANDBAR_EXEC=" + rand.Text()}, command...)...)
	}
	ways := []way{{"sandbar", verb(person.Instance)}, {"pod_exec", pod}, {"pod_exec_marked", marked}}
	took := map[string][]time.Duration{}
	samples := map[string][]float64{}
	for i := range n + 3 {
		for _, w := range ways {
			began := time.Now()
			if err := w.run(ctx, "true"); err != nil {
				return fmt.Errorf("running a command by %s: %w", w.name, err)
			}
			if i < 3 {
				continue // what is remembered after the first is not what is measured
			}
			d := time.Since(began)
			took[w.name] = append(took[w.name], d)
			samples[w.name+"/start_ms"] = append(samples[w.name+"/start_ms"], report.Milliseconds(d))
		}
	}
	figure := func(way string, p float64) float64 { return report.Milliseconds(report.Percentile(took[way], p)) }
	return report.Write(os.Stdout, results, "exec", samples, report.Line{Name: "exec", Fields: []report.Field{
		{Key: "start_p50_ms", Value: figure("sandbar", 50)},
		{Key: "start_p99_ms", Value: figure("sandbar", 99)},
		{Key: "vs_pod_exec", Value: figure("pod_exec", 50) / figure("sandbar", 50)},
		{Key: "pod_exec_p50_ms", Value: figure("pod_exec", 50)},
		{Key: "pod_exec_p99_ms", Value: figure("pod_exec", 99)},
		{Key: "pod_exec_marked_p50_ms", Value: figure("pod_exec_marked", 50)},
		{Key: "n", Value: n},
	}})
}

// verb runs a command by the verb exec, through the data plane.
func verb(i *client.Instance) func(context.Context, ...string) error {
	return func(ctx context.Context, command ...string) error {
		code, err := i.Exec(ctx, client.ExecOptions{Command: command})
		if err == nil && code != 0 {
			return fmt.Errorf("it exited with %d", code)
		}
		return err
	}
}

// podExec runs a command as kubectl does, with the right of the runtime cluster's administrator.
func podExec(s *stage.Stage, runner *stage.Runner) (func(context.Context, ...string) error, error) {
	config := s.Stack.Runtime()
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, command ...string) error {
		url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.Namespace).Name(runner.Pod).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: runner.Container, Command: command, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
		exec, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
		if err != nil {
			return err
		}
		var said bytes.Buffer
		if err := exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &said, Stderr: &said}); err != nil {
			return fmt.Errorf("%w: %s", err, said.String())
		}
		return nil
	}, nil
}
