// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// States of a member, as LabelMemberState has them.
const (
	// MemberMaking: its pod has not been ready yet.
	MemberMaking = "making"
	// MemberWarm: its pod has been ready. It may be adopted while the pod still is.
	MemberWarm = "warm"
	// MemberLeaving: its set removes it, and nobody may adopt it any more.
	MemberLeaving = "leaving"
)

// MemberPatch says how the pod of a member differs from the pod of its set's template.
type MemberPatch string

// Values of MemberPatch.
const (
	// Unpatched: not at all.
	Unpatched MemberPatch = ""
	// PatchedResourcesEqual: its containers ask for the same resources.
	PatchedResourcesEqual MemberPatch = "ResourcesEqual"
	// PatchedResizable: they do not, and its pod gets those of the template in place when it is taken.
	PatchedResizable MemberPatch = "Resizable"
	// PatchedResourcesDiffer: they do not, and it keeps its own.
	PatchedResourcesDiffer MemberPatch = "ResourcesDiffer"
)

// Member is a placement that a set keeps ready and nobody owns yet. Adoption makes it a Placed by one
// write to its namespace, under the version that says it is a member; its set removes it in the same way,
// so that a member is adopted or removed, and never both.
type Member struct {
	ID

	// SetUID is that of the SandboxSet, and Set its namespace and name. The set is in the workspace that the
	// member was made in.
	SetUID types.UID
	Set    types.NamespacedName
	// Revision is of the pod that it was made with: two members with one revision have the same pod.
	Revision string
	// Template is the revision that the pod would have without the patch of the set: the one of the instances that
	// may take the member.
	Template string
	// Patch says how the two differ.
	Patch MemberPatch
	// State is one of MemberMaking, MemberWarm and MemberLeaving.
	State string
}

// MemberOf tells of which set a namespace is a member; ok is false for one that is none, above all for
// one with an owner.
func MemberOf(namespace metav1.Object) (m Member, ok bool) {
	if m.ID, ok = IDOf(namespace); !ok || !m.Born() {
		return Member{}, false
	}
	m.SetUID = types.UID(labelOf(namespace, LabelSetUID))
	if m.SetUID == "" || labelOf(namespace, LabelOwnerUID) != "" || labelOf(namespace, LabelOwnerCluster) != "" {
		return Member{}, false
	}
	annotations := namespace.GetAnnotations()
	m.Set = types.NamespacedName{Namespace: annotations[AnnotationSetNamespace], Name: annotations[AnnotationSetName]}
	m.Revision, m.State = labelOf(namespace, LabelRevision), labelOf(namespace, LabelMemberState)
	if m.Template = labelOf(namespace, LabelTemplateRevision); m.Template == "" {
		m.Template = m.Revision
	}
	switch m.Patch = MemberPatch(labelOf(namespace, LabelMemberPatch)); m.Patch {
	case Unpatched, PatchedResourcesEqual, PatchedResizable, PatchedResourcesDiffer:
	default:
		m.Patch = PatchedResourcesDiffer // the least preferred
	}
	if m.State != MemberWarm && m.State != MemberLeaving {
		m.State = MemberMaking // also when somebody has taken the label off: it is looked at, and marked again
	}
	return m, m.Set.Name != ""
}

// Labels are those that make a namespace a member.
func (m Member) Labels(template string) map[string]string {
	labels := m.ID.Labels(template)
	labels[LabelSetUID], labels[LabelMemberState], labels[LabelRevision] = string(m.SetUID), m.State, m.Revision
	if m.Patch != Unpatched {
		labels[LabelTemplateRevision], labels[LabelMemberPatch] = m.Template, string(m.Patch)
	}
	return labels
}

// MemberLabels are the labels that an adoption takes off.
func MemberLabels() []string {
	return []string{LabelSetUID, LabelMemberState, LabelRevision, LabelTemplateRevision, LabelMemberPatch}
}

// Annotations are those that say where the set is. They outlast an adoption.
func (m Member) Annotations() map[string]string {
	return map[string]string{AnnotationSetNamespace: m.Set.Namespace, AnnotationSetName: m.Set.Name}
}
