// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errLost = errors.New("leader election lost")

// lasting runs until its context ends, and notes how often it was started.
func lasting(starts *int) component {
	return component{"lasting", func(ctx context.Context) error {
		*starts++
		<-ctx.Done()
		return nil
	}}
}

// The controllers ended when kcp was away for 21 seconds, and took the data plane along.
func TestAComponentThatEndsIsStartedAgainAndEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var others int
		var began []time.Duration
		start := time.Now()
		failing := component{"failing", func(context.Context) error {
			began = append(began, time.Since(start))
			<-time.After(21 * time.Second)
			return errLost
		}}
		ended := make(chan error)
		go func() { ended <- keepAll(ctx, slog.New(slog.DiscardHandler), failing, lasting(&others)) }()
		<-time.After(100 * time.Second)
		stop()
		if err := <-ended; err != nil && !errors.Is(err, errLost) {
			t.Errorf("ended with %v", err)
		}
		if others != 1 {
			t.Errorf("the other component was started %d times", others)
		}
		want := []time.Duration{0, 22 * time.Second, 45 * time.Second, 70 * time.Second, 99 * time.Second} // 1, 2, 4 and 8 s between
		if len(began) != len(want) {
			t.Fatalf("started at %v, want %v", began, want)
		}
		for i := range want {
			if began[i] != want[i] {
				t.Errorf("started at %v, want %v", began, want)
			}
		}
	})
}

func TestAComponentThatCannotStartEndsTheProcessAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var others int
		refused := component{"serve", func(context.Context) error { return errors.New("address already in use") }}
		err := keepAll(t.Context(), slog.New(slog.DiscardHandler), refused, lasting(&others))
		if err == nil || !strings.Contains(err.Error(), "serve: address already in use") {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestLeaderElectionIsForSeveralReplicas(t *testing.T) {
	for command, want := range map[string]string{"run": "false", "controllers": "true"} {
		cmd, _, err := newRootCommand().Find([]string{command})
		if err != nil {
			t.Fatal(err)
		}
		if got := cmd.Flags().Lookup("leader-elect").DefValue; got != want {
			t.Errorf("%s --leader-elect defaults to %s, want %s", command, got, want)
		}
	}
}

// From 8 on client-go writes Secrets and tokens.
func TestAVerbosityThatWritesBodiesIsRefused(t *testing.T) {
	for verbosity, ok := range map[int]bool{0: true, maxVerbosity: true, 8: false, 10: false, -1: false} {
		c := connections{kcpKubeconfig: "kcp.kubeconfig", verbosity: verbosity}
		if err := c.validate(); (err == nil) != ok {
			t.Errorf("--verbosity %d: %v", verbosity, err)
		}
	}
}
