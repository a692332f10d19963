// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package frozen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
)

// MaxBytes is how large all snapshots of a placement may be together, compressed: an object has to fit into etcd, and the
// metadata has to have room beside them.
const MaxBytes = 960 << 10

// Fields of the ConfigMap. The name of a component has no dot.
const (
	keyID     = "sandbox.id"
	keyTimes  = "sandbox.times"
	keyAsked  = "sandbox.asked"
	keyLabels = "sandbox.labels"
	keyCopied = "sandbox.copied"
	// keySessions is the DevSessions of components, by the components' names.
	keySessions = "sandbox.sessions"
)

// Frozen is what a placement keeps of its sources.
type Frozen struct {
	// ID of the sandbox (clone.NewID). It never changes.
	ID string
	// Components by their names.
	Components map[string]Component
	// Copied are the ConfigMaps and Secrets that were copied into the placement, as Kind/name, with the namespaces that they are
	// from. They stay until the placement goes.
	Copied map[string]string
	// Sessions are the DevSessions of components, by the components' names. The controller of DevSessions writes them, and all
	// others leave them as they are.
	Sessions map[string]devsession.Record

	// version is the ConfigMap's that this was read from; empty if there is none yet.
	version string
}

// Component is what was frozen for one component.
type Component struct {
	Snapshot *clone.Snapshot
	// Time at which the source was read, in whole seconds.
	Time time.Time
	// Asked is what the tenant had asked for by then (sandbarv1alpha1.AnnotationResnapshot); zero for nothing.
	Asked time.Time
	// Labels are those that the source had, by which the Baseline chooses it. They are nil, and not empty, if they are not known:
	// earlier versions did not keep them.
	Labels map[string]string
}

// New returns the beginning of a placement that has nothing yet: an ID, made from a source of random bytes.
func New(random io.Reader) (*Frozen, error) {
	id, err := clone.NewID(random)
	if err != nil {
		return nil, fmt.Errorf("making the ID of a sandbox: %w", err)
	}
	return &Frozen{ID: id, Components: map[string]Component{}, Copied: map[string]string{}}, nil
}

// Of returns what was frozen for a component of a source: nil if nothing was, if it was of another source, or if the tenant
// asks for it to be frozen again and had not asked so when it was.
func (f *Frozen) Of(component string, source clone.Source, asked time.Time) *Component {
	c, ok := f.Components[component]
	if !ok || c.Snapshot.Source.Digest() != source.Digest() || !asked.IsZero() && !asked.Equal(c.Asked) {
		return nil
	}
	return &c
}

// write puts all into a ConfigMap. The error is a *clone.RefusedError if it is too large.
func (f *Frozen) write(into *corev1.ConfigMap) error {
	times, asked, labels, size := map[string]time.Time{}, map[string]time.Time{}, map[string]map[string]string{}, 0
	into.BinaryData = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(f.Components)) {
		c := f.Components[name]
		encoded, err := c.Snapshot.Encode()
		if err != nil {
			return fmt.Errorf("component %s: %w", name, err)
		}
		size += len(encoded)
		into.BinaryData[name], times[name] = encoded, c.Time.UTC().Truncate(time.Second)
		if !c.Asked.IsZero() {
			asked[name] = c.Asked.UTC()
		}
		if c.Labels != nil {
			labels[name] = c.Labels
		}
	}
	into.Data = map[string]string{keyID: f.ID}
	values := map[string]any{keyTimes: times, keyAsked: asked, keyLabels: labels, keyCopied: f.Copied}
	if len(f.Sessions) > 0 {
		values[keySessions] = f.Sessions
	}
	for key, value := range values {
		raw, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", key, err)
		}
		into.Data[key] = string(raw)
	}
	size += len(into.Data[keyLabels]) + len(into.Data[keySessions])
	if size > MaxBytes {
		return &clone.RefusedError{Reason: clone.NotCloneable, Message: fmt.Sprintf(
			"the frozen pod templates and labels of all components have %d bytes together, compressed, with what is noted of their DevSessions, and %d is the most; have fewer components in a group", size, MaxBytes)}
	}
	return nil
}

// read takes all from a ConfigMap that write has made.
func read(from *corev1.ConfigMap) (*Frozen, error) {
	f := &Frozen{ID: from.Data[keyID], Components: map[string]Component{}, Copied: map[string]string{}, version: from.ResourceVersion}
	if f.ID == "" {
		return nil, fmt.Errorf("ConfigMap %s/%s has no %s: delete the instance and create it again", from.Namespace, from.Name, keyID)
	}
	times, asked, labels := map[string]time.Time{}, map[string]time.Time{}, map[string]map[string]string{}
	for key, value := range map[string]any{keyTimes: &times, keyAsked: &asked, keyLabels: &labels, keyCopied: &f.Copied, keySessions: &f.Sessions} {
		if err := json.Unmarshal([]byte(cmp.Or(from.Data[key], "{}")), value); err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s: %s: %w", from.Namespace, from.Name, key, err)
		}
	}
	for name, encoded := range from.BinaryData {
		snapshot, err := clone.Decode(encoded)
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s: component %s: %w", from.Namespace, from.Name, name, err)
		}
		f.Components[name] = Component{Snapshot: snapshot, Time: times[name], Asked: asked[name], Labels: labels[name]}
	}
	return f, nil
}
