// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const (
	// BinaryName is the name under which [Install] leaves the runner.
	BinaryName = "sandbar-runner"

	binaryMode = 0o755

	// healthTimeout bounds one health check.
	healthTimeout = 3 * time.Second
)

// Install copies the running program into dir, as an init container does, so that
// a toolchain image need not contain it. A reader finds the whole program or none.
func Install(dir string) (err error) {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the own program: %w", err)
	}
	from, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("reading the own program: %w", err)
	}
	defer from.Close()
	to, err := os.CreateTemp(dir, "."+BinaryName+"-*")
	if err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Chmod(binaryMode), to.Sync(), to.Close()); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	if err := os.Rename(to.Name(), filepath.Join(dir, BinaryName)); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	return nil
}

// CheckHealth returns nil when a runner answers at url.
func CheckHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("checking health: %w", err)
	}
	// Never through a proxy that the app's environment names.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("checking health: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("checking health: the runner answered %d", response.StatusCode)
	}
	return nil
}

// WaitHealthy returns when a runner answers at url, or ctx ends. A Template's postStart hook runs it: the
// kubelet then probes for the first time when the probe succeeds, instead of a moment too early
// and once more a whole second later, which is the shortest period that it knows.
func WaitHealthy(ctx context.Context, url string) error {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		err := CheckHealth(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

const (
	// StartTimeout is how long a runner may take in a pod to answer for the first time.
	StartTimeout = 10 * time.Second
	// startPoll is a fraction of what a runner takes to start.
	startPoll = 5 * time.Millisecond
)
