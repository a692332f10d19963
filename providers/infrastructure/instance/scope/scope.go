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
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

// Kind is the kind of instances that a Template defines.
type Kind struct {
	export.Kind

	Template string
}

// Settings are what the operator says of a kind: they change while its controller runs, and
// each change makes all instances be reconciled again.
type Settings struct {
	// Provider is the logical cluster of the provider workspace. Placements of another
	// provider are never touched.
	Provider string
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
	Revisions
	// Infrastructure is nil until the operator has created the InfrastructureProvider.
	Infrastructure *sandbarv1alpha1.InfrastructureProviderSpec
}

// Equal reports whether two settings are the same for all instances of the kind.
func (s Settings) Equal(other Settings) bool {
	return s.Provider == other.Provider && s.WantsPassword == other.WantsPassword && s.RunsPods == other.RunsPods && s.Revisions == other.Revisions &&
		equality.Semantic.DeepEqual(s.DataPlane, other.DataPlane) && equality.Semantic.DeepEqual(s.Pod, other.Pod) &&
		equality.Semantic.DeepEqual(s.Choice, other.Choice) &&
		equality.Semantic.DeepEqual(s.Infrastructure, other.Infrastructure)
}

// Scope is what one reconcile knows of its instance before it looks at the runtime cluster. Nothing is
// assigned to it once it is made (hack/house has the test): what a phase finds out it returns, and the
// reconciler hands it to the phases that need it.
type Scope struct {
	Kind
	Settings
	// Placement is the one that the instance has, or that will be made for it.
	Placement placement.Placed
	// Member is set while the placement is one that a set keeps for somebody: there is no instance yet, and
	// Object says what one would say that takes it.
	Member *placement.Member
	// Object is the tenant's object; its spec and metadata are a tenant's words.
	Object *unstructured.Unstructured
	// WorkspacePath is for people and may be empty.
	WorkspacePath string
}

// Protected is the scope of the same instance with the object as it is once the finalizer is on it, and
// with the path of its workspace.
func (s *Scope) Protected(obj *unstructured.Unstructured, workspacePath string) *Scope {
	protected := *s
	protected.Object, protected.WorkspacePath = obj, workspacePath
	return &protected
}

// In is the scope of the same instance in another placement.
func (s *Scope) In(placed placement.Placed) *Scope {
	in := *s
	in.Placement, in.Member = placed, nil
	return &in
}

// Annotations are those of everything that the provider puts into a placement.
func (s *Scope) Annotations() map[string]string {
	return map[string]string{placement.AnnotationProvider: s.Provider}
}

// OwnerAnnotations are those of the placement's namespace, which alone says whose it is; placement.Of reads
// them back.
func (s *Scope) OwnerAnnotations() map[string]string {
	annotations := s.Annotations()
	annotations[placement.AnnotationInstanceNamespace] = s.Object.GetNamespace()
	annotations[placement.AnnotationInstanceName] = s.Object.GetName()
	if s.WorkspacePath != "" {
		annotations[placement.AnnotationWorkspacePath] = s.WorkspacePath
	}
	return annotations
}

// PodSecurity is the pod security level of the placement.
func (s *Scope) PodSecurity() string {
	return cmp.Or(s.Infrastructure.Isolation.PodSecurity, defaultPodSecurity)
}

// ObjectMeta is the metadata of an object that the provider puts into the namespace.
func (s *Scope) ObjectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:        name,
		Namespace:   s.Placement.Namespace(),
		Labels:      s.Placement.Labels(s.Template),
		Annotations: s.Annotations(),
	}
}

// defaultPodSecurity is the pod security level of a placement when the operator names none.
const defaultPodSecurity = "restricted"

// DefaultActivityInterval is the ActivityInterval when the operator sets none.
const DefaultActivityInterval = time.Minute

// ActivityInterval is how often use is written down at most, and so how much it may lag.
func (s *Scope) ActivityInterval() time.Duration {
	if s.Infrastructure == nil || s.Infrastructure.Limits == nil || s.Infrastructure.Limits.ActivityIntervalSeconds == 0 {
		return DefaultActivityInterval
	}
	return time.Duration(s.Infrastructure.Limits.ActivityIntervalSeconds) * time.Second
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
