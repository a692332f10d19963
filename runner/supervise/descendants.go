// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// proc is one line of the process table.
type proc struct {
	pid, parent, session int
	state                byte
	// threads are those that live, and the first one also when it does not; zero if the line does not say.
	threads int
}

// gone is true for a process that runs no more and only waits to be reaped. The state is that of the first
// thread: a process that has ended it, or that is being killed, may go on with others.
func (p proc) gone() bool { return (p.state == 'Z' || p.state == 'X') && p.threads <= 1 }

// descendants returns the PIDs of the live processes that descend from root,
// nearest first, without the processes that spared returns, what descends from them, and
// what is in a session that one of them leads: a process that lost its parent there
// has become root's child, and is theirs still. spared is called once the process table
// was read, so that it knows of everything in it.
func descendants(root int, spared func() map[int]bool) ([]int, error) {
	table, err := processes()
	if err != nil {
		return nil, err
	}
	except := spared()
	children := make(map[int][]proc, len(table))
	for _, p := range table {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []int
	for pending := []int{root}; len(pending) > 0; pending = pending[1:] {
		for _, child := range children[pending[0]] {
			if except[child.pid] || except[child.session] || child.pid == root {
				continue
			}
			pending = append(pending, child.pid)
			if !child.gone() {
				found = append(found, child.pid)
			}
		}
	}
	return found, nil
}

// processes reads the process table from /proc.
func processes() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var table []proc
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", name, "stat"))
		if err != nil {
			continue // it has ended since
		}
		if p, err := parseStat(stat); err == nil {
			table = append(table, p)
		}
	}
	return table, nil
}

// threadsField is num_threads, the 20th field of the line (proc_pid_stat(5)), counted from the state.
const threadsField = 17

var errStat = errors.New("malformed process status")

// parseStat reads the beginning of /proc/PID/stat: "pid (name) state ppid pgrp session …". The
// name is the process's own choice and may hold spaces and parentheses, a whole
// forged line for one, so the fields after it are counted from the last one.
func parseStat(stat []byte) (proc, error) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return proc{}, errStat
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 4 || len(fields[0]) != 1 {
		return proc{}, errStat
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	if err != nil || pid <= 0 {
		return proc{}, errStat
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil || parent < 0 {
		return proc{}, errStat
	}
	session, err := strconv.Atoi(string(fields[3]))
	if err != nil {
		return proc{}, errStat
	}
	p := proc{pid: pid, parent: parent, session: session, state: fields[0][0]}
	if len(fields) > threadsField {
		if p.threads, err = strconv.Atoi(string(fields[threadsField])); err != nil {
			return proc{}, errStat
		}
	}
	return p, nil
}
