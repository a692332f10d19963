// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// MaxEncodedBytes is how large an encoded snapshot may be: it is the value of one ConfigMap, which holds 1 MiB.
	MaxEncodedBytes = 512 << 10
	// MaxSnapshotBytes is how large the JSON of a snapshot may be. No object of Kubernetes is larger than etcd's 1.5 MiB.
	MaxSnapshotBytes = 2 << 20
)

// Encode returns the snapshot as compressed JSON. Equal snapshots have equal bytes. The error is a *RefusedError if the
// workload is too large.
func (s *Snapshot) Encode() ([]byte, error) {
	plain, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding the snapshot of %s: %w", s.Source, err)
	}
	if len(plain) > MaxSnapshotBytes {
		return nil, s.tooLarge("the pod template", len(plain), MaxSnapshotBytes)
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed) // its header has neither a time nor a name
	if _, err := writer.Write(plain); err != nil {
		return nil, fmt.Errorf("compressing the snapshot of %s: %w", s.Source, err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compressing the snapshot of %s: %w", s.Source, err)
	}
	if compressed.Len() > MaxEncodedBytes {
		return nil, s.tooLarge("the compressed pod template", compressed.Len(), MaxEncodedBytes)
	}
	return compressed.Bytes(), nil
}

func (s *Snapshot) tooLarge(what string, size, most int) error {
	return refuse(NotCloneable, "%s of %s is %d bytes long, and %d is the most; ask the operator to move what is large in it, variables and commands above all, into a ConfigMap", what, s.Source, size, most)
}

// Digest is that of all that was frozen. It does not depend on the compression.
func (s *Snapshot) Digest() (string, error) {
	plain, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encoding the snapshot of %s: %w", s.Source, err)
	}
	return digestOf(plain), nil
}

// Decode reads what Encode wrote. It never holds more than MaxSnapshotBytes: data that decompress to more are refused.
func Decode(data []byte) (*Snapshot, error) {
	if len(data) > MaxEncodedBytes {
		return nil, fmt.Errorf("the snapshot is %d bytes long, and %d is the most", len(data), MaxEncodedBytes)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompressing the snapshot: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(reader, MaxSnapshotBytes+1)) //nolint:forbidigo // at most MaxSnapshotBytes
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompressing the snapshot: %w", err)
	case len(plain) > MaxSnapshotBytes:
		return nil, fmt.Errorf("the snapshot is larger than %d bytes, which is the most, when it is decompressed", MaxSnapshotBytes)
	}
	snapshot := &Snapshot{}
	if err := json.Unmarshal(plain, snapshot); err != nil {
		return nil, fmt.Errorf("reading the snapshot: %w", err)
	}
	if snapshot.Source.Kind == "" || len(snapshot.Template.Spec.Containers) == 0 {
		return nil, errors.New("the snapshot has no source or no containers: it was not written by Encode")
	}
	return snapshot, nil
}
