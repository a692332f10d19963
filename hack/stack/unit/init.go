// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// gateFD is the pipe over which the host says that the unit is connected.
const gateFD = 3

// Init is the first process of a unit: it furnishes the unit's machine, starts
// its processes and never returns but with an error.
func Init(specFile string) error {
	var s Spec
	if err := readJSON(specFile, &s); err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("unit %s: must be the first process of its own namespace", s.Name)
	}
	gate := os.NewFile(gateFD, "gate")
	if _, err := io.ReadFull(gate, make([]byte, 1)); err != nil {
		return fmt.Errorf("unit %s: whoever started it is gone: %w", s.Name, err)
	}
	gate.Close()
	if err := furnish(s.Machine, s.Namespaces); err != nil {
		return fmt.Errorf("unit %s: %w", s.Name, err)
	}
	// Ended by SIGKILL only: a stray signal to the terminal's group must not
	// take a cluster down.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM)

	sup := &supervisor{
		spec:    s,
		waiting: map[int]chan unix.WaitStatus{},
		status:  Status{Processes: map[string]ProcessStatus{}},
		log:     slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	go sup.reap()
	var all sync.WaitGroup
	for _, p := range s.Processes {
		all.Go(func() { sup.keepRunning(p) })
	}
	all.Wait()
	return fmt.Errorf("unit %s: nothing to run", s.Name)
}
