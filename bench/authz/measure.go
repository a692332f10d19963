// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/pause"
)

// figures are what one data plane gave.
type figures struct {
	first, again []time.Duration
	// calls are the questions to kcp for the requests of a window, and seen what kcp says of
	// it. names are the questions who somebody is, from the start on.
	calls, seen, names int
}

// cold is what a first request takes longer than one whose answer is kept.
func (f *figures) cold() time.Duration {
	return report.Percentile(f.first, 50) - report.Percentile(f.again, 50)
}

func (f *figures) samples() map[string][]float64 {
	samples := map[string][]float64{}
	for _, d := range f.first {
		samples["first"] = append(samples["first"], report.Milliseconds(d))
	}
	for _, d := range f.again {
		samples["again"] = append(samples["again"], report.Milliseconds(d))
	}
	return samples
}

// measure starts a data plane of its own and lets the crowd call it.
func measure(ctx context.Context, stack *local.Stack, provider *local.Provider, all crowd, args ...string) (*figures, error) {
	metrics, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	replica, err := provider.StartReplica(ctx, append([]string{
		"--insecure", "--tls-cert-file=", "--tls-key-file=", "--dataplane-metrics-address=" + metrics,
	}, args...)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = replica.Stop() }()
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	ours := func(match func(map[string]string) bool) (int, error) {
		return count(ctx, transport, "http://"+metrics+"/metrics", "sandbar_dataplane_kcp_calls_total", match)
	}
	kcps, err := kcpCounter(ctx, stack)
	if err != nil {
		return nil, err
	}
	// The placements may still be made; and connections are made here, not in what is measured.
	fmt.Fprintln(os.Stderr, "waiting for the placements, and for kept answers to end")
	if err := stage.Insist(ctx, func(ctx context.Context) error { _, err := all.inTurn(ctx, client, replica.URL); return err }); err != nil {
		return nil, err
	}
	f := &figures{}
	if err := pause.For(ctx, expiry); err != nil {
		return nil, err
	}
	if f.first, err = all.inTurn(ctx, client, replica.URL); err != nil {
		return nil, err
	}
	if f.again, err = all.inTurn(ctx, client, replica.URL); err != nil {
		return nil, err
	}
	if err := pause.For(ctx, expiry); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%d requests within %v\n", requests, window)
	before, err := ours(nil)
	kcpBefore, kcpErr := kcps()
	if err := errors.Join(err, kcpErr, all.spread(ctx, client, replica.URL)); err != nil {
		return nil, err
	}
	after, err := ours(nil)
	kcpAfter, kcpErr := kcps()
	names, namesErr := ours(func(labels map[string]string) bool { return labels["call"] == "identity" })
	f.calls, f.seen, f.names = after-before, kcpAfter-kcpBefore, names
	return f, errors.Join(err, kcpErr, namesErr)
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// kcpCounter counts, in kcp's own metrics, reviews of access and of identity, and reads of
// SandboxRunners one at a time; nobody else makes these meanwhile.
func kcpCounter(ctx context.Context, stack *local.Stack) (func() (int, error), error) {
	admin := stack.KCPAdmin("root")
	transport, err := rest.TransportFor(admin)
	if err != nil {
		return nil, fmt.Errorf("connecting to kcp: %w", err)
	}
	base, _, _ := strings.Cut(admin.Host, "/clusters/")
	return func() (int, error) {
		return count(ctx, transport, base+"/metrics", "apiserver_request_total", func(labels map[string]string) bool {
			switch labels["resource"] {
			case "selfsubjectaccessreviews", "selfsubjectreviews":
				return true
			case "sandboxrunners":
				return labels["verb"] == "GET"
			}
			return false
		})
	}, nil
}

// count adds up the series of a counter that match.
func count(ctx context.Context, transport http.RoundTripper, url, name string, match func(map[string]string) bool) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", "text/plain")
	res, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("reading metrics: status %d", res.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(res.Body, 256<<20))
	if err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	var sum float64
	for _, m := range families[name].GetMetric() {
		if match == nil || match(labelsOf(m)) {
			sum += m.GetCounter().GetValue()
		}
	}
	return int(sum), nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

var nanoseconds = regexp.MustCompile(`(?m)^BenchmarkCachedDecision\S*\s+\d+\s+([0-9.]+) ns/op`)

// cachedDecision runs the Go benchmark of a decision that is kept, and takes the median.
func cachedDecision(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkCachedDecision$", "-count", "5", "./dataplane")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("running the benchmark: %w\n%s", err, out)
	}
	var all []time.Duration
	for _, match := range nanoseconds.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			return 0, fmt.Errorf("reading the benchmark: %w", err)
		}
		all = append(all, time.Duration(ns))
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("the benchmark said nothing:\n%s", out)
	}
	return report.Percentile(all, 50), nil
}
