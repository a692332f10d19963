// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/frozen"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// ReasonBaselineNotFound is a reason of Composed: the workspace has no Baseline that is meant.
const ReasonBaselineNotFound = "BaselineNotFound"

// ReasonBaselineChanged is a reason of Composed: the instance means another Baseline than the one that its copies are of.
const ReasonBaselineChanged = "BaselineChanged"

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
	// Sessions are the DevSessions of components, by the components' names, if SessionsKnown: else nothing is known of them.
	Sessions      map[string]devsession.Record
	SessionsKnown bool
	// Refused is the reason why no component can be copied; nil if they can.
	Refused *RefusalError
	// Err is why none could be copied in this look, which a retry mends; nil if they could.
	Err error
}

// Copy is one component.
type Copy struct {
	Name   string
	Source clone.Source
	// Frozen is what was frozen of the source; nil if it was not found.
	Frozen *frozen.Component
	// Rendered is nil if it was refused.
	Rendered *clone.Rendered
	// Session is the DevSession of the component as it is rendered; nil if there is none, or if it cannot be rendered now.
	Session *clone.Rendered
	// Refused says what is wrong; nil if nothing is.
	Refused *clone.RefusedError
}

// Refusal is what is wrong with the copies as an error of composing: that of all, or of the first component with one. It is nil if
// nothing is wrong.
func (c *Copies) Refusal() error {
	switch {
	case c == nil:
		return nil
	case c.Err != nil:
		return c.Err
	case c.Refused != nil:
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
	if o.Copies == nil || o.Copies.Refused != nil || o.Copies.Err != nil {
		old, _ := s.Object().Object["status"].(map[string]any)
		for _, name := range []string{fieldSandboxID, fieldComponents} {
			if value, ok := old[name]; ok {
				own[name] = value
			}
		}
		return own, nil
	}
	before, rows, disclosed := toldComponents(s), []any{}, 0
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
		if disclosed += disclosedBytes(fields); disclosed > clone.MaxDisclosedBytes {
			unstructured.RemoveNestedField(fields, "snapshot", "template")
		}
		rows = append(rows, fields)
	}
	own[fieldSandboxID], own[fieldComponents] = o.Copies.SandboxID, rows
	return own, nil
}

// disclosedBytes is how large the whole pod template is that a row shows, as JSON.
func disclosedBytes(row map[string]any) int {
	template, ok, _ := unstructured.NestedFieldNoCopy(row, "snapshot", "template")
	if !ok {
		return 0
	}
	data, err := json.Marshal(template)
	if err != nil {
		return clone.MaxDisclosedBytes + 1 // it cannot be written anyway
	}
	return len(data)
}

// SandboxIDOf is the ID that the status of an instance tells; empty if it tells none. No tenant can write it.
func SandboxIDOf(obj *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(obj.Object, "status", fieldSandboxID)
	return id
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
	tellCopy(row, s, o, one)
	for _, c := range componentConditions(s, o, one) {
		c.ObservedGeneration, c.LastTransitionTime = s.Object().GetGeneration(), metav1.NewTime(o.Now.Truncate(time.Second))
		meta.SetStatusCondition(&row.Conditions, c)
	}
	row.Ready = meta.IsStatusConditionTrue(row.Conditions, sandbarv1alpha1.ComponentReady)
	return row, nil
}

// tellCopy tells what there is of a component: what has been rendered or, of one that is refused, the copy that the kro instance
// has still. What was refused may have been rendered, and runs nowhere.
func tellCopy(row *sandbarv1alpha1.SandboxGroupComponentStatus, s *scope.Scope, o Outcome, one *Copy) {
	made := one.Rendered
	if one.Refused != nil {
		made = formerCopy(s, o, one.Name)
	}
	if made == nil {
		return
	}
	row.DeploymentName, row.ServiceName = made.Deployment.Name, made.Service.Name
	row.Replicas, row.Image = made.Deployment.Spec.Replicas, made.Deployment.Spec.Template.Spec.Containers[0].Image
	for _, port := range made.Service.Spec.Ports {
		row.ServicePorts = append(row.ServicePorts, port.Port)
	}
}

// formerCopy is what the kro instance has of a component; nil if it has none. Package place writes it.
func formerCopy(s *scope.Scope, o Outcome, component string) *clone.Rendered {
	if o.Instance == nil {
		return nil
	}
	return CopyIn(s, o.Instance, component)
}

// CopyIn is the copy that a kro instance has of a component; nil if it has none. Its objects have the labels of the copy.
func CopyIn(s *scope.Scope, instance *unstructured.Unstructured, component string) *clone.Rendered {
	list, _, _ := unstructured.NestedSlice(instance.Object, "spec", s.Clones().Fields.To)
	for _, item := range list {
		var has struct {
			Name     string                `json:"name"`
			Labels   map[string]string     `json:"labels"`
			Replicas *int32                `json:"replicas"` // its spec has none while the instance is suspended
			Spec     appsv1.DeploymentSpec `json:"spec"`
			Service  struct {
				Name string             `json:"name"`
				Spec corev1.ServiceSpec `json:"spec"`
			} `json:"service"`
		}
		fields, _ := item.(map[string]any)
		if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &has) != nil ||
			has.Labels[placement.LabelComponent] != component || len(has.Spec.Template.Spec.Containers) == 0 {
			continue
		}
		has.Spec.Replicas = has.Replicas
		return &clone.Rendered{
			Deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: has.Name, Labels: has.Labels}, Spec: has.Spec},
			Service:    &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: has.Service.Name}, Spec: has.Service.Spec},
		}
	}
	return nil
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
func componentConditions(s *scope.Scope, o Outcome, one *Copy) []metav1.Condition {
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
	}
	taken := componentApplied(s, o)
	serves := taken
	if o.Instance != nil {
		if pods := componentReady(o, one); !pods.OK || taken.OK { // those that are ready may be of the copy of before
			serves = pods
		}
	}
	return []metav1.Condition{
		yes(resolved, reasonSnapshot, frozenMessage(one)), yes(rendered, reasonRendered, renderedMessage(one)),
		taken.condition(applied), serves.condition(ready),
	}
}

// componentApplied reports whether the runtime cluster has the copies. kro tells it of all of them together.
func componentApplied(s *scope.Scope, o Outcome) Verdict {
	switch {
	case o.Instance == nil, !observed(o.Instance):
		return Verdict{Reason: reasonNotApplied, message: "the runtime cluster has not taken the copy yet"}
	case graphState(o.Instance) == krov1alpha1.InstanceStateError:
		return graphFailed(s, o.Instance)
	}
	return Verdict{OK: true, Reason: reasonApplied, message: "the runtime cluster has the copy"}
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
	if session, ok := o.Copies.Sessions[one.Name]; ok && session.Stage.StopsCopy() {
		return sessionReady(o.Pods.Develops[one.Name], session.Name)
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

// sessionReady is componentReady for one that a DevSession serves alone.
func sessionReady(pods ComponentPods, session string) Verdict {
	message := "DevSession " + session + " serves in the place of the copy"
	switch {
	case pods.Ready > 0:
		return Verdict{OK: true, Reason: reasonComponentReady, message: message}
	case pods.Cause != nil:
		return Verdict{Reason: pods.Cause.Reason, message: message + ": " + pods.Cause.Message}
	}
	return Verdict{Reason: reasonPodsStarting, message: message + ", and its pod is not ready"}
}
