// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package rival

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the processor time that a process and its children have had, to the nanosecond; 0 for the
// id 0, of a subject whose process is not known. It says what a request costs also when others keep
// the machine busy. The time of threads that have ended is not in it.
func CPU(pid int) (time.Duration, error) {
	if pid == 0 {
		return 0, nil
	}
	var total time.Duration
	err := eachThread(pid, func(dir string) error {
		data, err := os.ReadFile(dir + "/schedstat")
		if err != nil {
			return nil //nolint:nilerr // the thread has ended meanwhile
		}
		ran, _, _ := strings.Cut(string(data), " ")
		ns, err := strconv.ParseInt(ran, 10, 64)
		if err != nil {
			return fmt.Errorf("reading a process's time: %w", err)
		}
		total += time.Duration(ns)
		return nil
	})
	return total, err
}

// eachThread does something for each thread of a process and of its children, by its folder.
func eachThread(pid int, do func(dir string) error) error {
	dirs, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(dirs) == 0 {
		return fmt.Errorf("looking at process %d: it has no threads: %w", pid, errors.Join(err, os.ErrNotExist))
	}
	for _, dir := range dirs {
		if err := do(dir); err != nil {
			return err
		}
		children, _ := os.ReadFile(dir + "/children")
		for child := range strings.FieldsSeq(string(children)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				return fmt.Errorf("looking at the children of process %d: %w", pid, err)
			}
			if err := eachThread(n, do); err != nil && !errors.Is(err, os.ErrNotExist) { // it has ended meanwhile
				return err
			}
		}
	}
	return nil
}
