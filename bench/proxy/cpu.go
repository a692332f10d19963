// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat (USER_HZ, which is 100 on every Linux that Go runs on).
const tick = 10 * time.Millisecond

// cpu is the processor time that a process and its children have used; 0 if it is not known. It
// says what a request costs also when others keep the machine busy.
func cpu(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	own := "/proc/" + strconv.Itoa(pid)
	data, err := os.ReadFile(own + "/stat")
	if err != nil {
		return 0
	}
	// The command's name, in parentheses, may hold anything; utime and stime are 12 and 13 behind it.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		ticks, _ := strconv.Atoi(field)
		sum += time.Duration(ticks) * tick
	}
	children, _ := os.ReadFile(own + "/task/" + strconv.Itoa(pid) + "/children")
	for child := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			sum += cpu(n)
		}
	}
	return sum
}
