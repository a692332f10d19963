// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	// MaxPatchBytes bounds a patch. Merging costs up to the product of both sides' lists.
	MaxPatchBytes = 64 << 10
	// MaxGraceSeconds bounds how long a pod may take to end: it holds up suspending and deleting.
	MaxGraceSeconds = 300
	// fieldVolumes is the name of the volumes among Pod.Fields.
	fieldVolumes = "volumeClaimTemplates"
	// FieldUpdateStrategy is the name of the way in which the pod is updated, among Pod.Fields as a graph takes them: that of
	// a StatefulSet, RollingUpdate if it is not there.
	FieldUpdateStrategy = "updateStrategy"
	// UpdateOnDelete leaves a pod alone that was resized to what the template says now.
	UpdateOnDelete = "OnDelete"
	// maxProblems is how many problems a RefusedError tells of.
	maxProblems = 8
)

// RefusedError says why there can be no pod of what was written.
type RefusedError struct {
	// Problems each begin with the field that has to change.
	Problems []string
}

func (r *RefusedError) Error() string {
	if more := len(r.Problems) - maxProblems; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(r.Problems[:maxProblems], "; "), more)
	}
	return strings.Join(r.Problems, "; ")
}

func refuse(format string, args ...any) error {
	return &RefusedError{Problems: []string{fmt.Sprintf(format, args...)}}
}

// Rules are the operator's words about every pod.
type Rules struct {
	// Labels are put on the pod and win.
	Labels map[string]string
	// RuntimeClassName is that of sandboxes; empty means the cluster's default.
	RuntimeClassName string
	// PlacementClasses are the operator's kinds of places, by their names.
	PlacementClasses map[string]sandbarv1alpha1.PlacementClass
	// PodSecurity is the level that the placement enforces.
	PodSecurity string
	// LabelPrefixes and AnnotationPrefixes are what a tenant's keys may begin with.
	LabelPrefixes, AnnotationPrefixes []string
	// Bounds are how much the pod may ask for.
	Bounds Bounds
	// RunnerImage has the runner, for templates whose runtime it is; empty if the operator has none.
	RunnerImage string
	// Bound: the instance has variables of its own, in the Secret placement.BindingSecret.
	Bound bool
}

// Pod is the pod of an instance with its volumes.
type Pod struct {
	Template             corev1.PodTemplateSpec
	VolumeClaimTemplates []sandbarv1alpha1.VolumeClaimTemplate

	// sized are the indices of the volumes whose size was filled in.
	sized []int
	// late is set if variables reach the pod while it runs.
	late bool
	// grouped is set if the group was filled in beside a user that the tenant names.
	grouped bool
}

// NewSource reads what a tenant wrote. The API server has checked it against Schema.
func NewSource(field map[string]any) (*sandbarv1alpha1.PodTemplateSource, error) {
	source := &sandbarv1alpha1.PodTemplateSource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(field, source); err != nil {
		return nil, refuse("the template cannot be read: %v", err)
	}
	return source, nil
}

// Build makes the pod: the tenant's template or the base, the patch on it, what is the
// operator's forced, and what is left out of the security context filled in. base is that of
// the source's TemplateRef, nil when it has none; former are the volumes that the instance has
// already, nil when it has not been made. The error is a *RefusedError when another source could be
// built.
func Build(source *sandbarv1alpha1.PodTemplateSource, base *Base, former []sandbarv1alpha1.VolumeClaimTemplate, rules Rules) (*Pod, error) {
	pod, err := begin(source, base)
	if err != nil {
		return nil, err
	}
	if former != nil {
		// A StatefulSet cannot change its volumes, and they hold the tenant's data.
		pod.VolumeClaimTemplates = former
	}
	operators := corev1.PodTemplateSpec{} // of a tenant's own template nothing is the operator's
	if base != nil {
		operators = base.Operators
	}
	if len(pod.Template.Spec.Containers) == 0 {
		return nil, refuse("spec.containers: must have at least one container")
	}
	if problems := check(&pod.Template, &operators, rules); len(problems) > 0 {
		return nil, &RefusedError{Problems: problems}
	}
	if base.runs() {
		if err := pod.withRunner(rules.RunnerImage); err != nil {
			return nil, err
		}
	}
	if pod.late || rules.Bound {
		pod.bind(pod.late)
	}
	pod.force(rules)
	if base != nil && base.PlacementClass != "" {
		class, ok := rules.PlacementClasses[base.PlacementClass]
		if !ok {
			return nil, &UnknownClassError{Class: base.PlacementClass, Known: slices.Sorted(maps.Keys(rules.PlacementClasses))}
		}
		pod.placeIn(class)
	}
	return pod, nil
}

// UnknownClassError says that the operator has no placement class of a name.
type UnknownClassError struct {
	Class string
	Known []string
}

func (u *UnknownClassError) Error() string {
	if len(u.Known) == 0 {
		return fmt.Sprintf("there is no placement class %q; the operator has none, so leave it out", u.Class)
	}
	return fmt.Sprintf("there is no placement class %q; the operator has %s", u.Class, strings.Join(u.Known, ", "))
}

// placeIn puts the operator's words of where a pod runs into it.
func (p *Pod) placeIn(class sandbarv1alpha1.PlacementClass) {
	spec := &p.Template.Spec
	if len(class.NodeSelector) > 0 {
		selector := maps.Clone(spec.NodeSelector)
		if selector == nil {
			selector = map[string]string{}
		}
		maps.Copy(selector, class.NodeSelector)
		spec.NodeSelector = selector
	}
	spec.Tolerations = append(slices.Clone(spec.Tolerations), class.Tolerations...)
	if class.RuntimeClassName != "" {
		spec.RuntimeClassName = &class.RuntimeClassName
	}
	if class.PriorityClassName != "" {
		spec.PriorityClassName = class.PriorityClassName
	}
}

// begin makes a pod of what was written alone: the template or the base, and the patch on it.
func begin(source *sandbarv1alpha1.PodTemplateSource, base *Base) (*Pod, error) {
	pod := &Pod{VolumeClaimTemplates: source.VolumeClaimTemplates}
	switch {
	case source.PodTemplate != nil:
		pod.Template.Labels = source.PodTemplate.Metadata.Labels
		pod.Template.Annotations = source.PodTemplate.Metadata.Annotations
		pod.Template.Spec = *source.PodTemplate.Spec.DeepCopy()
	case base != nil:
		pod.Template = *base.Template.DeepCopy()
		pod.VolumeClaimTemplates = withBaseVolumes(source.VolumeClaimTemplates, base.VolumeClaimTemplates)
	default:
		return nil, refuse("podTemplate or templateRef: one must be set")
	}
	return pod, pod.patch(source.Patch)
}

// withBaseVolumes adds the base's volumes to the tenant's, whose size wins.
func withBaseVolumes(own, base []sandbarv1alpha1.VolumeClaimTemplate) []sandbarv1alpha1.VolumeClaimTemplate {
	all := append([]sandbarv1alpha1.VolumeClaimTemplate(nil), own...)
	taken := map[string]bool{}
	for _, v := range own {
		taken[v.Metadata.Name] = true
	}
	for _, v := range base {
		if !taken[v.Metadata.Name] {
			all = append(all, v)
		}
	}
	return all
}

func (p *Pod) patch(patch *runtime.RawExtension) error {
	if patch == nil || len(patch.Raw) == 0 {
		return nil
	}
	if len(patch.Raw) > MaxPatchBytes {
		return refuse("patch: is %d bytes long, and %d is the most", len(patch.Raw), MaxPatchBytes)
	}
	before, err := json.Marshal(&p.Template)
	if err != nil {
		return fmt.Errorf("encoding the pod template: %w", err)
	}
	after, err := merge(before, patch.Raw)
	if err != nil {
		return refuse("patch: does not apply to the pod template: %v", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(after, &fields); err != nil {
		return refuse("patch: does not leave a pod template: %v", err)
	}
	// Strictly, so that a misspelt field is told and not dropped.
	p.Template = corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, &p.Template, true); err != nil {
		return refuse("patch: does not leave a pod template: %v", err)
	}
	return nil
}

// merge applies a patch. The attack: a list's entry whose key is a map, {"containers": [{"name": {}}]},
// panics in the library, and a schema does not see into a patch.
func merge(before, patch []byte) (after []byte, err error) {
	defer func() {
		if recover() != nil {
			after, err = nil, errors.New("an entry of a list is named by something that is no text")
		}
	}()
	return strategicpatch.StrategicMergePatch(before, patch, corev1.PodTemplateSpec{})
}

// Fields are the pod and its volumes as a graph takes them: template and volumeClaimTemplates,
// both of a StatefulSet's form.
func (p *Pod) Fields() (map[string]any, error) {
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Template)
	if err != nil {
		return nil, fmt.Errorf("encoding the pod template: %w", err)
	}
	if metadata, ok := template["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	claims := make([]any, len(p.VolumeClaimTemplates))
	for i := range p.VolumeClaimTemplates {
		claims[i] = claimFields(&p.VolumeClaimTemplates[i], p.Template.Labels)
	}
	return map[string]any{"template": template, fieldVolumes: claims}, nil
}

// FormerVolumes reads the volumes back from what Fields gave; nil when there is nothing.
func FormerVolumes(fields map[string]any) ([]sandbarv1alpha1.VolumeClaimTemplate, error) {
	claims, ok := fields[fieldVolumes].([]any)
	if !ok {
		return nil, nil
	}
	volumes := make([]sandbarv1alpha1.VolumeClaimTemplate, len(claims))
	for i := range claims {
		claim, _ := claims[i].(map[string]any)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(claim, &volumes[i]); err != nil {
			return nil, fmt.Errorf("reading the volumes of the instance: %w", err)
		}
	}
	return volumes, nil
}

// claimFields are of a StatefulSet's form. The API server's own defaults are spelled out, or kro
// would find a difference each time it compares.
func claimFields(v *sandbarv1alpha1.VolumeClaimTemplate, labels map[string]string) map[string]any {
	mode := "ReadWriteOnce"
	if len(v.Spec.AccessModes) > 0 {
		mode = v.Spec.AccessModes[0]
	}
	spec := map[string]any{
		"accessModes": []any{mode},
		"volumeMode":  string(corev1.PersistentVolumeFilesystem),
		"resources":   map[string]any{"requests": map[string]any{"storage": v.Spec.Resources.Requests.Storage}},
	}
	if v.Spec.StorageClassName != "" {
		spec["storageClassName"] = v.Spec.StorageClassName
	}
	own := map[string]any{}
	for key, value := range labels {
		if strings.HasPrefix(key, reservedDomain+"/") {
			own[key] = value
		}
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": v.Metadata.Name, "labels": own},
		"spec":     spec,
	}
}

// sampleName is the name of every sample. A generated one would stand in the API server's refusal, and
// make it another refusal each time.
const sampleName = "sandbar-check"

// Sample is a pod as the template's StatefulSet would make it, to ask the API server about.
func (p *Pod) Sample(namespace string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: *p.Template.ObjectMeta.DeepCopy(), Spec: *p.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = namespace, sampleName
	for _, v := range p.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: v.Metadata.Name,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Metadata.Name},
			},
		})
	}
	return pod
}

func (p *Pod) force(rules Rules) {
	labels := map[string]string{}
	maps.Copy(labels, p.Template.Labels)
	maps.Copy(labels, rules.Labels) // ours last: they win
	p.Template.Labels = labels

	spec, no := &p.Template.Spec, false
	spec.AutomountServiceAccountToken = &no
	spec.EnableServiceLinks = &no
	if spec.RuntimeClassName == nil && rules.RuntimeClassName != "" {
		spec.RuntimeClassName = &rules.RuntimeClassName
	}
	p.grouped = secure(spec)
	p.sized = fillSizes(spec, &rules.Bounds)
}

// Completes reports whether former, what Fields gave for a pod before, is this pod but for the
// sizes of volumes and the group that were filled in since. It need not be replaced for them: they are
// bounds for its next start.
func (p *Pod) Completes(former map[string]any) (bool, error) {
	for _, without := range []struct{ sizes, group bool }{{true, false}, {false, p.grouped}, {true, p.grouped}} {
		before := &Pod{Template: *p.Template.DeepCopy(), VolumeClaimTemplates: p.VolumeClaimTemplates}
		if without.sizes {
			for _, i := range p.sized {
				before.Template.Spec.Volumes[i].EmptyDir.SizeLimit = nil
			}
		}
		if without.group {
			before.Template.Spec.SecurityContext.RunAsGroup = nil
		}
		fields, err := before.Fields()
		if err != nil || equality.Semantic.DeepEqual(fields, former) {
			return err == nil, err
		}
	}
	return false, nil
}

func isTrue(b *bool) bool { return b != nil && *b }
