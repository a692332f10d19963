// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/idempotency"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// maxBase bounds what a name begins with that is made of the template's.
	maxBase = 40
	// suffixLength is how many characters of a hash end a name that is made of a key.
	suffixLength = 10
)

// Kind is that of Sandboxes.
type Kind struct {
	APIVersion, Kind string
	// TemplateField is the field of the spec that holds the template.
	TemplateField string
}

// Sandbox is a Sandbox as far as a caller is told of it: without its spec, and with a message if it is not Ready.
type Sandbox struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta              `json:"metadata"`
	Status          sandbarv1alpha1.InstanceStatus `json:"status"`
	// Message says why the Sandbox is not Ready, and what to do; empty if it is.
	Message string `json:"message,omitempty"`
}

// Ready reports whether the Sandbox can be used now.
func (s *Sandbox) Ready() bool {
	return s.Metadata.DeletionTimestamp == nil && meta.IsStatusConditionTrue(s.Status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
}

// rests reports whether the Sandbox does not become Ready by itself: it has failed, is being deleted, or, if it was
// found by its key, is suspended or asleep.
func (s *Sandbox) rests() bool {
	return s.Metadata.DeletionTimestamp != nil || slices.Contains(resting, s.Status.Phase)
}

var resting = []sandbarv1alpha1.InstancePhase{
	sandbarv1alpha1.InstanceFailed, sandbarv1alpha1.InstanceSuspending, sandbarv1alpha1.InstanceSuspended, sandbarv1alpha1.InstanceSleeping,
}

// Start is how the Sandbox started: Warm, Cold, or "unknown" while that is not written.
func (s *Sandbox) Start() string {
	if s.Status.Start == nil {
		return startUnknown
	}
	return s.Status.Start.Type
}

const startUnknown = "unknown"

// says is what the condition Ready says.
func (s *Sandbox) says() string {
	if c := meta.FindStatusCondition(s.Status.Conditions, sandbarv1alpha1.InstanceReadyCondition); c != nil && c.Message != "" {
		return c.Message
	}
	return "the provider has not reported on it yet"
}

// object is the Sandbox that a request asks for.
func (r *Request) object(kind Kind, namespace, template, name string) map[string]any {
	labels, annotations := maps.Clone(r.Labels), maps.Clone(r.Annotations)
	if r.Key != "" {
		labels, annotations = with(labels, placement.LabelIdempotencyKey, idempotency.Hash(r.Key)), with(annotations, placement.AnnotationIdempotencyKey, r.Key)
		annotations[placement.AnnotationClaimRequest] = r.digest(template)
	}
	metadata := map[string]any{"namespace": namespace}
	if name != "" {
		metadata["name"] = name
	} else {
		metadata["generateName"] = r.base(template)
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	spec := map[string]any{kind.TemplateField: map[string]any{"templateRef": map[string]any{"kind": "SandboxTemplate", "name": template}}}
	if r.Lifecycle != nil {
		spec[contract.LifecycleField] = r.Lifecycle
	}
	if r.Prewarm != "" {
		spec[contract.PrewarmField] = r.Prewarm
	}
	if r.Resize != "" {
		spec[contract.ResizeField] = r.Resize
	}
	if len(r.Env) > 0 {
		spec[contract.EnvField] = r.Env
	}
	if len(r.EnvFrom) > 0 {
		spec[contract.EnvFromField] = r.EnvFrom
	}
	return map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind, "metadata": metadata, "spec": spec}
}

func with(pairs map[string]string, key, value string) map[string]string {
	if pairs == nil {
		pairs = map[string]string{}
	}
	pairs[key] = value
	return pairs
}

// base is what a name begins with that is made for the Sandbox.
func (r *Request) base(template string) string {
	return cmp.Or(r.GenerateName, strings.TrimRight(template[:min(len(template), maxBase)], ".-")+"-")
}

// nameFor is the name of the Sandbox of a key: always the same, so that of two requests that come at once kcp takes
// one. former is the UID of a Sandbox with that key whose time is over, and which may have the name.
func (r *Request) nameFor(template, former string) string {
	if r.Name != "" {
		return r.Name
	}
	sum := sha256.Sum256([]byte(r.Key + "\x00" + former))
	return r.base(template) + hex.EncodeToString(sum[:])[:suffixLength]
}
