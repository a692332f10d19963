// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command authz measures what it costs to ask kcp whether callers may, on the real stack: fifty
// callers with tokens of their own, each calling its own instance twenty times within ten
// seconds. It counts what kcp was asked by the data plane's own metric and by kcp's.
//
// The instances are suspended, so each answer is 409: everything up to the pod is done, and
// nothing is measured but that.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

const (
	callers  = 50
	requests = 1000
	window   = 10 * time.Second
	// expiry is longer than answers of kcp are kept, so that a window begins with nothing.
	expiry = 11 * time.Second
)

func main() {
	stage.Main("authz", run)
}

func run(ctx context.Context, name, results string) error {
	stack, err := local.Find(ctx, name)
	if err != nil {
		return err
	}
	provider, err := stack.StartProvider(ctx, local.ProviderOptions{Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { _ = provider.Stop() }()
	tenant, err := stage.NewTenant(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { _ = tenant.Close() }()
	fmt.Fprintf(os.Stderr, "making %d callers and their instances\n", callers)
	crowd, err := newCrowd(ctx, stack, tenant)
	if err != nil {
		return err
	}
	plain, err := measure(ctx, stack, provider, crowd)
	if err != nil {
		return err
	}
	// Who a token is, the audit log asks once in five minutes.
	auditLog := filepath.Join(provider.LogDir, "bench-audit.log")
	defer func() { _ = os.Remove(auditLog) }()
	audited, err := measure(ctx, stack, provider, crowd, "--audit-log="+auditLog)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "measuring a cached decision in process")
	cached, err := cachedDecision(ctx)
	if err != nil {
		return err
	}
	return report.Write(os.Stdout, results, "authz", plain.samples(), report.Line{Name: "authz", Fields: []report.Field{
		{Key: "cold_ms", Value: report.Milliseconds(plain.cold())},
		{Key: "cached_us", Value: float64(cached.Nanoseconds()) / 1000},
		{Key: "kcp_calls_per_1000", Value: plain.calls},
		{Key: "kcp_saw", Value: plain.seen},
		{Key: "audited_kcp_calls_per_1000", Value: audited.calls},
		{Key: "audited_names_asked", Value: audited.names},
		{Key: "callers", Value: callers},
		{Key: "n", Value: requests},
	}})
}
