// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// keepAwake keeps all processors from sleeping until what it returns is closed: whoever holds the
// file open asks the kernel for the answer to any event within so many microseconds, here 0
// (https://docs.kernel.org/power/pm_qos_interface.html). So do cyclictest and tuned's latency
// profiles: otherwise it is the sleep of the processors that is measured. It needs root.
func keepAwake() (io.Closer, error) {
	f, err := os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("keeping the processors awake: %w", err)
	}
	if err := binary.Write(f, binary.NativeEndian, int32(0)); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("keeping the processors awake: %w", err)
	}
	return f, nil
}
