// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// ReasonBaselineNotFound is a reason of Composed: the workspace has no Baseline that is meant.
const ReasonBaselineNotFound = "BaselineNotFound"

// Fields of the status of an instance that has copies.
const (
	fieldSandboxID  = "sandboxID"
	fieldComponents = "components"
)

// Reasons of a component's conditions, beside those of refusals.
const (
	reasonSnapshot          = "Snapshot"
	reasonRendered          = "Rendered"
	reasonApplied           = "Applied"
	reasonComponentReady    = "Ready"
	reasonSourceNotResolved = "SourceNotResolved"
	reasonNotRendered       = "NotRendered"
	reasonNotApplied        = "NotApplied"
	reasonPodsStarting      = "PodsStarting"
	reasonPodsStopped       = "Suspended"
)

// copiesRecheck is after which time to look again at what is wrong with a workload: no event tells when it is mended.
const copiesRecheck = 10 * time.Second

// Copies are what a look has made of the components of an instance whose kind has copies of workloads.
type Copies struct {
	// SandboxID is that by which requests are routed to the instance.
	SandboxID string
	// Discloses: tenants see the whole pod templates.
	Discloses bool
	// Components in the order of the spec.
	Components []Copy
	// Refused is the reason why no component can be copied; nil if they can.
	Refused *RefusalError
}

// Copy is one component.
type Copy struct {
	Name   string
	Source clone.Source
	// Frozen is what was frozen of the source; nil if it was not found.
	Frozen *frozen.Component
	// Rendered is nil if it was refused.
	Rendered *clone.Rendered
	// Refused says what is wrong; nil if nothing is.
	Refused *clone.RefusedError
}

// Refusal is what is wrong with the copies as an error of composing: that of the first component with one. It is nil if nothing
// is wrong.
func (c *Copies) Refusal() error {
	if c == nil {
		return nil
	}
	if c.Refused != nil {
		return c.Refused
	}
	for i := range c.Components {
		if refused := c.Components[i].Refused; refused != nil {
			return &RefusalError{Reason: string(refused.Reason), Message: "component " + c.Components[i].Name + ": " + refused.Message, Recheck: copiesRecheck}
		}
	}
	return nil
}

// withCopies adds what there is of the components. What is not known in this look stays as it was told.
func withCopies(own map[string]any, s *scope.Scope, o Outcome) (map[string]any, error) {
	if s.Clones() == nil {
		return own, nil
	}
	if o.Copies == nil || o.Copies.Refused != nil {
		old, _ := s.Object().Object["status"].(map[string]any)
		for _, name := range []string{fieldSandboxID, fieldComponents} {
			if value, ok := old[name]; ok {
				own[name] = value
			}
		}
		return own, nil
	}
	before, rows := toldComponents(s), []any{}
	for i := range o.Copies.Components {
		one := &o.Copies.Components[i]
		row, err := componentStatus(s, o, one, before[one.Name])
		if err != nil {
			return nil, err
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(row)
		if err != nil {
			return nil, fmt.Errorf("encoding the status of component %s: %w", one.Name, err)
		}
		rows = append(rows, fields)
	}
	own[fieldSandboxID], own[fieldComponents] = o.Copies.SandboxID, rows
	return own, nil
}

// toldComponents are the rows that the status has, by their names. Of them only the times of conditions count.
func toldComponents(s *scope.Scope) map[string]*sandbarv1alpha1.SandboxGroupComponentStatus {
	told := map[string]*sandbarv1alpha1.SandboxGroupComponentStatus{}
	list, _, _ := unstructured.NestedSlice(s.Object().Object, "status", fieldComponents)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		row := &sandbarv1alpha1.SandboxGroupComponentStatus{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, row) == nil {
			told[row.Name] = row
		}
	}
	return told
}

func componentStatus(s *scope.Scope, o Outcome, one *Copy, before *sandbarv1alpha1.SandboxGroupComponentStatus) (*sandbarv1alpha1.SandboxGroupComponentStatus, error) {
	row := &sandbarv1alpha1.SandboxGroupComponentStatus{Name: one.Name}
	if before != nil {
		row.Conditions = before.Conditions
	}
	if one.Source.Name != "" {
		row.SourceRefDigest = one.Source.Digest()
	}
	if one.Frozen != nil {
		var err error
		if row.Snapshot, err = snapshotOf(one.Frozen, o.Copies.Discloses); err != nil {
			return nil, err
		}
	}
	if one.Rendered != nil {
		row.DeploymentName, row.ServiceName = one.Rendered.Deployment.Name, one.Rendered.Service.Name
		for _, port := range one.Rendered.Service.Spec.Ports {
			row.ServicePorts = append(row.ServicePorts, port.Port)
		}
	}
	for _, c := range componentConditions(o, one) {
		c.ObservedGeneration, c.LastTransitionTime = s.Object().GetGeneration(), metav1.NewTime(o.Now.Truncate(time.Second))
		meta.SetStatusCondition(&row.Conditions, c)
	}
	row.Ready = meta.IsStatusConditionTrue(row.Conditions, sandbarv1alpha1.ComponentReady)
	return row, nil
}

// snapshotOf is what tenants see of what was frozen.
func snapshotOf(of *frozen.Component, discloses bool) (*sandbarv1alpha1.WorkloadSnapshot, error) {
	digest, err := of.Snapshot.Digest()
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	told := &sandbarv1alpha1.WorkloadSnapshot{
		Digest: digest, Time: metav1.NewTime(of.Time), Replicas: of.Snapshot.Replicas, ServicePorts: of.Snapshot.ServicePorts,
	}
	pod := &of.Snapshot.Template.Spec
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		told.Containers = append(told.Containers, c.Name)
		if !slices.Contains(told.Images, c.Image) {
			told.Images = append(told.Images, c.Image)
		}
	}
	if discloses {
		told.Template = of.Snapshot.Template.DeepCopy()
	}
	return told, nil
}

// componentConditions are those of one component, each false because of the one before it or for a reason of its own.
func componentConditions(o Outcome, one *Copy) []metav1.Condition {
	const resolved, rendered, applied, ready = sandbarv1alpha1.ComponentSourceResolved, sandbarv1alpha1.ComponentRendered, sandbarv1alpha1.ComponentApplied, sandbarv1alpha1.ComponentReady
	no := func(name, reason, message string) metav1.Condition {
		return Verdict{Reason: reason, message: message}.condition(name)
	}
	yes := func(name, reason, message string) metav1.Condition {
		return Verdict{OK: true, Reason: reason, message: message}.condition(name)
	}
	switch {
	case one.Frozen == nil:
		return []metav1.Condition{
			no(resolved, string(one.Refused.Reason), one.Refused.Message), no(rendered, reasonSourceNotResolved, "the workload has not been found"),
			no(applied, reasonNotRendered, "there is no copy"), no(ready, reasonNotRendered, "there is no copy"),
		}
	case one.Refused != nil:
		return []metav1.Condition{
			yes(resolved, reasonSnapshot, frozenMessage(one)), no(rendered, string(one.Refused.Reason), one.Refused.Message),
			no(applied, reasonNotRendered, "the copy is as it was before, if there was one"), no(ready, reasonNotRendered, "the copy is as it was before, if there was one"),
		}
	case o.Instance == nil:
		return []metav1.Condition{
			yes(resolved, reasonSnapshot, frozenMessage(one)), yes(rendered, reasonRendered, renderedMessage(one)),
			no(applied, reasonNotApplied, "the runtime cluster has not taken the copy yet"), no(ready, reasonNotApplied, "the runtime cluster has not taken the copy yet"),
		}
	}
	return []metav1.Condition{
		yes(resolved, reasonSnapshot, frozenMessage(one)), yes(rendered, reasonRendered, renderedMessage(one)),
		yes(applied, reasonApplied, "the runtime cluster has the copy"), componentReady(o, one).condition(ready),
	}
}

func frozenMessage(one *Copy) string {
	return fmt.Sprintf("%s is frozen as it was at %s", one.Source, one.Frozen.Time.UTC().Format(time.RFC3339))
}

// renderedMessage tells in what a copy differs from its workload beyond what the tenant has said.
func renderedMessage(one *Copy) string {
	texts := []string{"the copy is as the spec says"}
	for _, note := range one.Rendered.Notes {
		texts = append(texts, note.Reason+": "+note.Message)
	}
	return Detail(strings.Join(texts, "; "))
}

// componentReady counts the pods of a component.
func componentReady(o Outcome, one *Copy) Verdict {
	if o.Plan.Suspended != "" {
		return Verdict{Reason: reasonPodsStopped, message: "the instance is suspended"}
	}
	wanted := int32(1)
	if one.Rendered.Deployment.Spec.Replicas != nil {
		wanted = *one.Rendered.Deployment.Spec.Replicas
	}
	if o.Plan.Rests {
		wanted = min(wanted, o.Plan.MinReplicas)
	}
	pods := o.Pods.Of[one.Name]
	message := fmt.Sprintf("%d of %d pods are ready", min(pods.Ready, wanted), wanted)
	switch {
	case pods.Ready < wanted && pods.Cause != nil:
		return Verdict{Reason: pods.Cause.Reason, message: message + ": " + pods.Cause.Message}
	case pods.Ready < wanted:
		return Verdict{Reason: reasonPodsStarting, message: message}
	}
	return Verdict{OK: true, Reason: reasonComponentReady, message: message}
}
