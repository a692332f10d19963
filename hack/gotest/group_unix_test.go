// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// go test waits for the tests' program and passes no signal on.
func TestTheTestsEndWithTheRun(t *testing.T) {
	dir := module(t, "func TestHangs(t *testing.T) { os.WriteFile(\"made\", fmt.Appendf(nil, \"%d\", os.Getpid()), 0o600); os.Rename(\"made\", \"pid\"); select {} }\n")
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan bool, 1)
	go func() {
		green, _ := run(ctx, settings{stage: "unit", packages: []string{"."}}, &strings.Builder{})
		over <- green
	}()
	var pid int
	for pid == 0 {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil {
			if pid, err = strconv.Atoi(string(text)); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-over:
			t.Fatal("the run ended before its test began")
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if <-over {
		t.Error("a run that was ended is green")
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the tests' program goes on: %v", err)
	}
}
