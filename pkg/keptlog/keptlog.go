// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package keptlog is the end of the log of an instance that is suspended.
//
// # Responsibility
//
// A suspension ends the pods of an instance, and the kubelet drops their logs. The controllers read the
// end of each container's log before that and write it, by [Log.Encode], into the Secret
// placement.LogSecret of the placement. The data plane reads it by [Decode] for callers whom kcp lets
// read the log. It is in a Secret, and not in the status, because the status is shown to everybody who
// may read the instance.
//
// # Boundary
//
// The package knows neither of the two clusters: it says how much is kept, in which form, and which
// lines a question wants.
package keptlog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// ContainerBytes is how much is kept of a container's log: its end.
	ContainerBytes = 64 << 10
	// MaxContainers is of how many containers of an instance a log is kept.
	MaxContainers = 8

	// key is the entry of the Secret.
	key = "log.json.gz"
	// maxBytes bounds what is unpacked: the content, as base64 in JSON, and what stands beside it.
	maxBytes = 8 * MaxContainers * ContainerBytes
)

// ErrNone means that a Secret holds no log.
var ErrNone = errors.New("no log was kept")

// Log is what was kept of an instance.
type Log struct {
	// At is when it was kept.
	At         time.Time   `json:"at"`
	Containers []Container `json:"containers"`
}

// Container is what was kept of a container.
type Container struct {
	Pod  string `json:"pod"`
	Name string `json:"name"`
	// Ports are the names of its ports.
	Ports []string `json:"ports,omitempty"`
	// Labels are those of the pod, by which a Service selects it.
	Labels map[string]string `json:"labels,omitempty"`
	// Refs are the fields of the runtime instance's status that named the pod.
	Refs []string `json:"refs,omitempty"`
	// Runner: the container's program is the runner, whose own lines are not its app's.
	Runner bool `json:"runner,omitempty"`
	// Unread: the log could not be read, or not to its end. Text is empty then: half of a log would be
	// taken for its end.
	Unread bool `json:"unread,omitempty"`
	// Text has whole lines, each with its time before it, as the API server gives them.
	Text []byte `json:"text"`
}

// Encode returns the data of the Secret.
func (l *Log) Encode() (map[string][]byte, error) {
	var packed bytes.Buffer
	out := gzip.NewWriter(&packed)
	if err := json.NewEncoder(out).Encode(l); err != nil {
		return nil, fmt.Errorf("encoding a log: %w", err)
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("encoding a log: %w", err)
	}
	return map[string][]byte{key: packed.Bytes()}, nil
}

// Decode reads the data of the Secret. It fails with ErrNone when there is nothing in it.
func Decode(data map[string][]byte) (*Log, error) {
	packed, ok := data[key]
	if !ok {
		return nil, ErrNone
	}
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decoding a log: %w", err)
	}
	var l Log
	if err := json.NewDecoder(io.LimitReader(in, maxBytes)).Decode(&l); err != nil {
		return nil, fmt.Errorf("decoding a log: %w", err)
	}
	return &l, nil
}
