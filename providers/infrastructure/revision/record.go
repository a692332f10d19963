// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
)

const (
	// Annotation is the annotation of a ResourceGraphDefinition that holds the graphs that it was
	// merged of, the target first. Both are written at once, so that neither is ever without the
	// other.
	Annotation = "sandbar.dev/revisions"
	// MaxGraphs is how many revisions of a graph instances may have at once.
	MaxGraphs = 5
	// MaxRecord bounds the annotation, in bytes: all annotations of an object may have 256 KiB.
	MaxRecord = 200 << 10
	// maxPlain bounds what a record may unpack to.
	maxPlain = 16 << 20
)

// ErrSize is the error of Encode for graphs that are too large.
var ErrSize = errors.New("the revisions of the graph that instances have are too large together")

// Encode writes graphs into the value of Annotation.
func Encode(graphs []Graph) (string, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := json.NewEncoder(w).Encode(graphs); err != nil {
		return "", fmt.Errorf("recording the graph's revisions: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("recording the graph's revisions: %w", err)
	}
	record := base64.StdEncoding.EncodeToString(packed.Bytes())
	if len(record) > MaxRecord {
		return "", fmt.Errorf("%w: they take %d bytes, which are more than %d; wait until the rollout is complete, or make the graph smaller",
			ErrSize, len(record), MaxRecord)
	}
	return record, nil
}

// Decode reads the value of Annotation.
func Decode(record string) ([]Graph, error) {
	packed, err := base64.StdEncoding.DecodeString(record)
	if err != nil {
		return nil, fmt.Errorf("reading the graph's revisions: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("reading the graph's revisions: %w", err)
	}
	var graphs []Graph
	if err := json.NewDecoder(io.LimitReader(r, maxPlain)).Decode(&graphs); err != nil {
		return nil, fmt.Errorf("reading the graph's revisions: %w", err)
	}
	return graphs, nil
}

// Stored returns the graphs that a ResourceGraphDefinition was merged of, the target first. One that
// has no record, because it was stored before there were revisions or because somebody has taken
// the record away, is a single graph without a name.
func Stored(rgd *krov1alpha1.ResourceGraphDefinition) ([]Graph, error) {
	if record, ok := rgd.Annotations[Annotation]; ok {
		if graphs, err := Decode(record); err == nil && len(graphs) > 0 {
			return graphs, nil
		}
	}
	raw, err := json.Marshal(rgd.Spec)
	if err != nil {
		return nil, fmt.Errorf("reading ResourceGraphDefinition %s: %w", rgd.Name, err)
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return nil, fmt.Errorf("reading ResourceGraphDefinition %s: %w", rgd.Name, err)
	}
	return []Graph{{Spec: spec}}, nil
}
