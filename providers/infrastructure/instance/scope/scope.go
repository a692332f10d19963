// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

// Kind is the kind of instances that a Template defines.
type Kind struct {
	export.Kind

	Template string
	// Group is that of the kind that kro makes of the Template's graph (placement.Names); empty if it is that of
	// the tenants' objects.
	Group string
}

// Composed is the kind that kro makes of the Template's graph.
func (k Kind) Composed() export.Kind {
	composed := k.Kind
	composed.GVK.Group = cmp.Or(k.Group, composed.GVK.Group)
	return composed
}

// Settings are what the operator says of a kind: they change while its controller runs, and
// each change makes all instances be reconciled again.
type Settings struct {
	// Provider is the logical cluster of the provider workspace. Placements of another
	// provider are never touched.
	Provider string
	// Names are those of what the provider has on the runtime cluster.
	Names placement.Names
	// DataPlane is the Template's contract, with the verbs of its development contract.
	DataPlane sandbarv1alpha1.DataPlane
	// WantsPassword tells that the graph uses the Secret placement.PasswordSecret.
	WantsPassword bool
	// RunsPods: the graph makes workloads, so that an instance which is being made is one whose pods
	// are coming.
	RunsPods bool
	// Choice is nil unless tenants choose an image.
	Choice *sandbarv1alpha1.ImageChoice
	// Pod is nil unless tenants write a pod template for instances of the kind.
	Pod *PodWords
	// Clones is nil unless instances of the kind are copies of workloads.
	Clones *CloneWords
	// Compound is nil unless instances of the kind may have workloads in the place of a pod template.
	Compound *CompoundWords
	Revisions
	// Infrastructure is nil until the operator has created the InfrastructureProvider.
	Infrastructure *sandbarv1alpha1.InfrastructureProviderSpec
	// Conversions give an object of a former schema the form of the present one; nil if there are none.
	Conversions *conversion.Set
	// Since is when these settings took the place of others.
	Since time.Time
	// Computed remembers what follows from these settings; nil if nothing is remembered.
	Computed *Computed
}

// Equal reports whether two settings are the same for all instances of the kind. What has been computed does not count,
// nor since when they hold.
func (s Settings) Equal(other Settings) bool {
	return s.Provider == other.Provider && s.Names == other.Names && s.WantsPassword == other.WantsPassword && s.RunsPods == other.RunsPods && s.Revisions == other.Revisions &&
		equality.Semantic.DeepEqual(s.DataPlane, other.DataPlane) && equality.Semantic.DeepEqual(s.Pod, other.Pod) &&
		equality.Semantic.DeepEqual(s.Clones, other.Clones) && equality.Semantic.DeepEqual(s.Compound, other.Compound) &&
		equality.Semantic.DeepEqual(s.Choice, other.Choice) && s.Conversions.Equal(other.Conversions) &&
		equality.Semantic.DeepEqual(s.Infrastructure, other.Infrastructure)
}

// Scope is what one reconcile knows of its instance before it looks at the runtime cluster. Nothing changes it once it is
// made: what a phase finds out it returns, and the reconciler hands it to the phases that need it.
type Scope struct {
	kind          Kind
	settings      Settings
	placement     placement.Placed
	member        *placement.Member
	object        *unstructured.Unstructured
	status        sandbarv1alpha1.InstanceStatus
	workspacePath string
	madeFor       MadeFor
	// converted is the generation that the provider has converted in this reconcile; zero if it has converted none.
	converted int64
}

// New returns the scope of a tenant's object that has, or will get, a placement. status is the one that the object had
// when it was read, decoded.
func New(kind Kind, settings Settings, object *unstructured.Unstructured, status sandbarv1alpha1.InstanceStatus, placed placement.Placed) *Scope {
	return &Scope{kind: kind, settings: settings, object: object, status: status, placement: placed}
}

// Protected is the scope of the same instance with the object as it is once the finalizer is on it, and
// with the path of its workspace. Its status is the same: the finalizer is written under the version that was read.
func (s *Scope) Protected(obj *unstructured.Unstructured, workspacePath string) *Scope {
	protected := *s
	protected.object, protected.workspacePath = obj, workspacePath
	return &protected
}

// Converted is the scope of the same instance after the provider has given the object the form of the present schema.
// from is the generation that it had before; zero if nothing was written.
func (s *Scope) Converted(from int64) *Scope {
	converted := *s
	converted.converted = from
	return &converted
}

// Seen reports whether the tenant has changed nothing since a generation of the object: it is the present one, or the
// one that the provider has converted in this reconcile. A conversion does not count as use of an instance, does not wake it and
// is not a change that it takes before its turn.
func (s *Scope) Seen(generation int64) bool {
	return generation == s.object.GetGeneration() || s.converted != 0 && generation == s.converted
}

// In is the scope of the same instance in another placement.
func (s *Scope) In(placed placement.Placed) *Scope {
	in := *s
	in.placement, in.member = placed, nil
	return &in
}

// Of is the scope of a member: there is no instance yet, and the object says what one would say that takes it.
func (s *Scope) Of(member placement.Member) *Scope {
	of := *s
	of.member = &member
	return &of
}

// Saying is the scope of the same instance with other words of the operator's about its pod.
func (s *Scope) Saying(words PodWords) *Scope {
	saying := *s
	saying.settings.Pod = &words
	return &saying
}

// Object is the tenant's object; its spec and metadata are a tenant's words. It must not be changed.
func (s *Scope) Object() *unstructured.Unstructured { return s.object }

// Status is the one that the object had when it was read.
func (s *Scope) Status() sandbarv1alpha1.InstanceStatus { return s.status }

// Placement is the one that the instance has, or that will be made for it.
func (s *Scope) Placement() placement.Placed { return s.placement }

// Member is the member whose placement this is; nil for the placement of an instance.
func (s *Scope) Member() *placement.Member { return s.member }

// WorkspacePath is for people and may be empty.
func (s *Scope) WorkspacePath() string { return s.workspacePath }

// Kind is the kind of the instance.
func (s *Scope) Kind() Kind { return s.kind }

// Template is the name of the Template that defines the kind.
func (s *Scope) Template() string { return s.kind.Template }

// NewComposed returns an empty kro instance of the kind, to read into.
func (s *Scope) NewComposed() *unstructured.Unstructured { return s.kind.Composed().NewObject() }

// Names are those of what the provider has on the runtime cluster.
func (s *Scope) Names() placement.Names { return s.settings.Names }

// Settings are all that the operator says of the kind. What its pointers lead to must not be changed.
func (s *Scope) Settings() Settings { return s.settings }

// Provider is as in Settings, and so are the next ones.
func (s *Scope) Provider() string { return s.settings.Provider }

// DataPlane is the Template's contract.
func (s *Scope) DataPlane() *sandbarv1alpha1.DataPlane { return &s.settings.DataPlane }

// RunsPods reports whether the graph makes workloads.
func (s *Scope) RunsPods() bool { return s.settings.RunsPods }

// Choice is nil unless tenants choose an image.
func (s *Scope) Choice() *sandbarv1alpha1.ImageChoice { return s.settings.Choice }

// Pod is nil unless tenants write a pod template for instances of the kind.
func (s *Scope) Pod() *PodWords { return s.settings.Pod }

// Revisions are what the Template says of its revisions.
func (s *Scope) Revisions() Revisions { return s.settings.Revisions }

// Infrastructure is nil until the operator has created the InfrastructureProvider.
func (s *Scope) Infrastructure() *sandbarv1alpha1.InfrastructureProviderSpec {
	return s.settings.Infrastructure
}

// Annotations are those of everything that the provider puts into a placement.
func (s *Scope) Annotations() map[string]string {
	return map[string]string{placement.AnnotationProvider: s.Provider()}
}

// OwnerAnnotations are those of the placement's namespace, which alone says whose it is; placement.Of reads
// them back.
func (s *Scope) OwnerAnnotations() map[string]string {
	annotations := s.Annotations()
	annotations[placement.AnnotationInstanceNamespace] = s.object.GetNamespace()
	annotations[placement.AnnotationInstanceName] = s.object.GetName()
	if s.workspacePath != "" {
		annotations[placement.AnnotationWorkspacePath] = s.workspacePath
	}
	return annotations
}

// PodSecurity is the pod security level of the placement: that of the Baseline whose copies it has, or of all placements. While
// that Baseline is not there, it is what it was: copies that run have to be admitted again after an eviction.
func (s *Scope) PodSecurity() string {
	level := cmp.Or(s.settings.Infrastructure.Isolation.PodSecurity, defaultPodSecurity)
	switch b := s.PlacementBaseline(); {
	case b != nil:
		return cmp.Or(b.Spec.PodSecurity, level)
	case s.settings.Clones != nil:
		return cmp.Or(s.madeFor.PodSecurity, level)
	}
	return level
}

// ObjectMeta is the metadata of an object that the provider puts into the namespace.
func (s *Scope) ObjectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   s.placement.Namespace(),
		Labels:      s.placement.Labels(s.Template()),
		Annotations: s.Annotations(),
	}
}

// defaultPodSecurity is the pod security level of a placement when the operator names none.
const defaultPodSecurity = "restricted"

// DefaultActivityInterval is the ActivityInterval when the operator sets none.
const DefaultActivityInterval = time.Minute

// ActivityInterval is how often use is written down at most, and so how much it may lag.
func (s *Scope) ActivityInterval() time.Duration {
	if s.settings.Infrastructure == nil || s.settings.Infrastructure.Limits == nil || s.settings.Infrastructure.Limits.ActivityIntervalSeconds == 0 {
		return DefaultActivityInterval
	}
	return time.Duration(s.settings.Infrastructure.Limits.ActivityIntervalSeconds) * time.Second
}

// PodWords are what the operator says of a kind whose tenants write a pod template.
type PodWords struct {
	// Fields say where tenants write it and where the graph takes it from.
	Fields sandbarv1alpha1.PodTemplateFields
	// Offers are the pod templates that Templates offer.
	Offers podbase.Offers
	// Written is the field of the tenant's object that names or holds the pod template, for messages; empty
	// for the field of an instance. A SandboxSet has fields of its own.
	Written string
	// WrittenClass is the same for the placement class.
	WrittenClass string
	// Change is that of the set whose member this is.
	Change PodChange
}

// PodChange is what a set makes different in the pods of its template. The zero value changes nothing.
type PodChange struct {
	// Patch is a strategic merge patch of the pod, in JSON.
	Patch string `json:"patch,omitempty"`
	// PlacementClass takes the place of the template's.
	PlacementClass string `json:"placementClass,omitempty"`
	// Resized: the containers have the resources of the template, and not those that the patch gives them.
	Resized bool `json:"resized,omitempty"`
}

// Field names the field that holds the pod template, for messages.
func (w *PodWords) Field() string { return cmp.Or(w.Written, "spec."+w.Fields.From) }

// ClassField names the field of the placement class, for messages.
func (w *PodWords) ClassField() string { return cmp.Or(w.WrittenClass, w.RefField()) }

// RefField names the field that refers to a template, for messages.
func (w *PodWords) RefField() string { return cmp.Or(w.Written, "spec."+w.Fields.From+".templateRef") }

// Revisions are what a Template says of its revisions.
type Revisions struct {
	// Revision is the present one; empty until the Template has one. former is the one before, while
	// the present one is rolled out.
	Revision, Former string
	// Paused is true if no further instance was to take the present revision when that was last written.
	Paused  bool
	Rollout rollout.Settings
	// NotComposing is since when kro composes nothing; zero while it does.
	NotComposing time.Time
}
