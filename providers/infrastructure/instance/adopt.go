// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/lifecycle"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// adopt gives an object that has no placement a member with the very pod that would be made for it. It
// returns the scope with that placement, or nil and why there is none. The error is an *outcome.RefusalError if
// there would be no pod.
//
// A member is adopted by one write to its namespace, under the version that says it is one. Two who want
// the same member, or one who wants it and a set that removes it, cannot both succeed.
func (r *reconciler) adopt(ctx context.Context, s *scope.Scope) (warm *adopted, cold string, err error) {
	if reason := ineligible(s); reason != "" {
		return nil, reason, nil
	}
	began := time.Now()
	revision, err := r.podRevision(ctx, s)
	if err != nil {
		return nil, "", err
	}
	found := time.Now()
	workspace := s.Placement().Owner.Cluster
	candidates, err := r.inLine(ctx, s, revision)
	if err != nil {
		return nil, "", err
	}
	s = s.Protected(s.Object(), r.tenants.WorkspacePath(ctx, workspace))
	for _, member := range candidates {
		placed, instance, err := r.members.take(ctx, s, member)
		if err != nil {
			return nil, "", err
		}
		if placed != nil {
			r.capacity.adopted(placed.ID, placed.Owner)
			r.members.waiters.leave(requestOf(s.Placement()))
			return &adopted{scope: s.In(*placed), instance: instance, began: began, found: found, at: time.Now()}, "", nil
		}
	}
	return nil, r.members.whyCold(workspace, s.Object().GetNamespace(), revision), nil
}

// adopted is an instance that has just taken a member.
type adopted struct {
	scope *scope.Scope
	// instance is the member's kro instance as it was last looked at; nil if that is not remembered.
	instance *unstructured.Unstructured
	// began is when the revision of its pod was asked for, found when that was known, and at when it was adopted.
	began, found, at time.Time
}

// inLine are the members that an object may take now: those that are left when all that wait for one, and came
// before it, have theirs.
func (r *reconciler) inLine(ctx context.Context, s *scope.Scope, revision string) ([]*corev1.Namespace, error) {
	req := requestOf(s.Placement())
	key := warmKey(req.Cluster, req.Namespace, revision)
	me := waiter{req: req, created: s.Object().GetCreationTimestamp().Time, wake: func() { r.wake(req) }}
	if requiresMember(s) {
		r.members.waiters.join(key, me)
	}
	candidates, err := r.members.candidates(ctx, s, revision)
	if err != nil {
		return nil, err
	}
	return candidates[min(r.members.waiters.ahead(key, me), len(candidates)):], nil
}

// ineligible is why an object cannot take a member; empty if it can.
func ineligible(s *scope.Scope) string {
	written, _, _ := unstructured.NestedMap(s.Object().Object, "spec", s.Pod().Fields.From)
	prewarm, _, _ := unstructured.NestedString(s.Object().Object, "spec", contract.PrewarmField)
	source, err := podtemplate.NewSource(written)
	switch {
	case err != nil, source.TemplateRef == nil:
		return sandbarv1alpha1.StartOwnPodTemplate
	case prewarm == contract.PrewarmNone:
		return sandbarv1alpha1.StartPrewarmNone
	case lifecycle.Suspended(s.Object()):
		return sandbarv1alpha1.StartSuspended
	case source.Patch != nil:
		return sandbarv1alpha1.StartPatchDiffers
	case len(source.VolumeClaimTemplates) > 0:
		return sandbarv1alpha1.StartVolumesDiffer
	}
	return ""
}

// revisionID stands for every placement in podRevision: a pod has the UID of its placement in a label.
var revisionID = placement.ID{Origin: "sandbar-revision", UID: "revision"}

// podRevision is of the pod that would be made for an object now, and of all that the operator says of it:
// objects with one revision have the same pod. It is computed once for the same words of the same templates under the same
// settings. The error is an *outcome.RefusalError if there would be none.
func (r *reconciler) podRevision(ctx context.Context, s *scope.Scope) (string, error) {
	written, _, _ := unstructured.NestedMap(s.Object().Object, "spec", s.Pod().Fields.From)
	source, err := podtemplate.NewSource(written)
	if err != nil {
		return "", place.SpecRefused(s, err)
	}
	uids := ""
	if source.TemplateRef != nil {
		if uids, err = s.Pod().Offers.UIDs(ctx, source.TemplateRef, r.sandboxTemplates(s)); err != nil {
			return "", unusable(s, err)
		}
	}
	if known, ok := s.Settings().Computed.Revision(revisionKey(written, uids)); ok {
		return known, nil
	}
	podRevisionsTotal.Inc()
	made, err := r.revisionPod(ctx, s, scope.PodChange{})
	if err != nil {
		return "", err
	}
	// Under what it was made of: a template may have taken the place of another one since.
	s.Settings().Computed.SetRevision(revisionKey(written, made.of), made.revision)
	return made.revision, nil
}

func revisionKey(written map[string]any, uids string) string { return hashOf(written) + "|" + uids }

// revised is a pod, what it is made of, and the revision that both have.
type revised struct {
	pod          *podtemplate.Pod
	of, revision string
}

// revisionPod computes the revision of a pod, with what a set changes.
func (r *reconciler) revisionPod(ctx context.Context, s *scope.Scope, change scope.PodChange) (made revised, err error) {
	written, _, _ := unstructured.NestedMap(s.Object().Object, "spec", s.Pod().Fields.From)
	alike := s.In(placement.Placed{ID: revisionID, Owner: s.Placement().Owner, Object: s.Placement().Object})
	if made.pod, made.of, err = r.buildPod(ctx, alike, written, change, nil); err != nil {
		return made, err
	}
	fields, err := made.pod.Fields()
	if err != nil {
		return made, fmt.Errorf("writing the pod: %w", err)
	}
	made.revision = hashOf([]any{fields, made.of, s.Revisions().Revision, s.PodSecurity()})
	return made, nil
}

// whyCold is why there is no candidate.
func (m *Members) whyCold(cluster, namespace, revision string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, set := range m.sets {
		if set.Key.Cluster == cluster && set.Key.Namespace == namespace && set.TemplateRevision == revision {
			return sandbarv1alpha1.StartSetEmpty
		}
	}
	return sandbarv1alpha1.StartNoSet
}

// candidates are the members beside an object that it can adopt now, with that revision, in the order in
// which to try them: unpatched ones first, then those whose resources are the object's own; then sets with a higher
// priority, then those with more, then by name; of one set the oldest member first.
func (m *Members) candidates(ctx context.Context, s *scope.Scope, revision string) ([]*corev1.Namespace, error) {
	var list corev1.NamespaceList
	// What is listed is only read: a copy of each member would be made for each claim.
	err := m.cluster.client.List(ctx, &list, client.UnsafeDisableDeepCopy,
		client.MatchingFields{memberIndex: warmKey(s.Placement().Owner.Cluster, s.Object().GetNamespace(), revision)})
	if err != nil {
		return nil, fmt.Errorf("listing the members: %w", err)
	}
	var all []candidateMember
	available := map[types.UID]int{}
	for i := range list.Items {
		ns := &list.Items[i]
		member, ok := placement.MemberOf(ns)
		if !ok || ns.DeletionTimestamp != nil || m.isHeld(ns.Name) || ns.Annotations[placement.AnnotationProvider] != s.Provider() {
			continue
		}
		ready, started, err := m.usable(ctx, ns.Name)
		if err != nil {
			return nil, err
		}
		age := Member{Member: member, Created: ns.CreationTimestamp.Time, Started: started}.Age(m.now())
		if ready && !m.tooOld(member.SetUID, age) {
			available[member.SetUID]++
			all = append(all, candidateMember{namespace: ns, set: member.Set.Name, uid: member.SetUID, patch: member.Patch, priority: m.priority(member.SetUID)})
		}
	}
	slices.SortFunc(all, func(a, b candidateMember) int { return order(a, b, available) })
	namespaces := make([]*corev1.Namespace, len(all))
	for i := range all {
		namespaces[i] = all[i].namespace
	}
	return namespaces, nil
}

// candidateMember is a member that could be adopted.
type candidateMember struct {
	namespace *corev1.Namespace
	set       string
	uid       types.UID
	patch     placement.MemberPatch
	priority  int32
}

// byPatch is the order of preference among members: what the object itself would get comes first, and what only
// differs in other fields than its resources before the rest.
var byPatch = map[placement.MemberPatch]int{placement.Unpatched: 0, placement.PatchedResourcesEqual: 1, placement.PatchedResourcesDiffer: 2}

// order compares two candidates; the one to try first is the lesser.
func order(a, b candidateMember, available map[types.UID]int) int {
	return cmp.Or(
		cmp.Compare(byPatch[a.patch], byPatch[b.patch]),
		cmp.Compare(b.priority, a.priority),
		cmp.Compare(available[b.uid], available[a.uid]),
		cmp.Compare(a.set, b.set),
		a.namespace.CreationTimestamp.Compare(b.namespace.CreationTimestamp.Time),
		cmp.Compare(a.namespace.Name, b.namespace.Name),
	)
}

// tooOld reports whether a member of this age may not be taken. Of a set that this process has not looked at yet
// nothing is known, and its members are taken: a start of the provider makes no Sandbox cold.
func (m *Members) tooOld(set types.UID, age time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.sets[set].MaxAge
	return most > 0 && age >= most
}

func (m *Members) priority(set types.UID) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[set].Priority
}

// take makes a member the placement of an object; nil if somebody else was faster. instance is the member's kro instance as
// it was last looked at, nil if that is not remembered.
func (m *Members) take(ctx context.Context, s *scope.Scope, member *corev1.Namespace) (placed *placement.Placed, instance *unstructured.Unstructured, err error) {
	if !m.hold(member.Name) {
		return nil, nil, nil // another reconcile of this process has it
	}
	instance = m.lookedAt(member.Name) // the event of the adoption drops it
	data, err := adoption(s, member, time.Now())
	if err != nil {
		m.release(member.Name)
		return nil, nil, err
	}
	after := &corev1.Namespace{}
	after.Name = member.Name
	err = m.cluster.client.Patch(ctx, after, client.RawPatch(types.MergePatchType, data), client.FieldOwner(fieldOwner))
	switch {
	case err == nil:
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		adoptionConflictsTotal.Inc()
		m.release(member.Name)
		return nil, nil, nil // as above
	default:
		// It may have been written nevertheless: the API server is asked before the object gets another one.
		m.doubt(s.Placement().Owner)
		m.release(member.Name)
		return nil, nil, fmt.Errorf("adopting %s: %w", member.Name, err)
	}
	is, ok := placement.Of(after)
	if !ok || is.Owner != s.Placement().Owner || after.DeletionTimestamp != nil {
		m.release(member.Name)
		return nil, nil, nil // as above
	}
	m.took(member, is)
	return &is, instance, nil
}

// adoption is the patch by which a member gets its owner.
func adoption(s *scope.Scope, member *corev1.Namespace, now time.Time) ([]byte, error) {
	id, _ := placement.IDOf(member)
	desired := place.BuildNamespace(s.In(placement.Placed{ID: id, Owner: s.Placement().Owner, Object: s.Placement().Object}))
	labels, annotations := map[string]any{}, map[string]any{}
	for name, value := range desired.Labels {
		labels[name] = value
	}
	for name, value := range desired.Annotations {
		annotations[name] = value
	}
	for _, name := range placement.MemberLabels() {
		labels[name] = nil
	}
	annotations[placement.AnnotationAdoptedAt] = now.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": member.ResourceVersion, "labels": labels, "annotations": annotations,
	}})
	if err != nil {
		return nil, fmt.Errorf("writing the adoption: %w", err)
	}
	return data, nil
}

func (m *Members) hold(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[namespace] {
		return false
	}
	m.held[namespace] = true
	return true
}

func (m *Members) release(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, namespace)
}

// took notes an adoption until the cache shows it.
func (m *Members) took(member *corev1.Namespace, placed placement.Placed) {
	was, _ := placement.MemberOf(member)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adopted[placed.Owner] = placed
	claims := m.claimed[was.SetUID]
	m.claimed[was.SetUID] = Claims{Count: claims.Count + 1, Last: placed.Adopted.At}
	delete(m.troubles, member.Name)
}

// adoptedBy is the placement that an owner has adopted and that the cache does not show yet.
func (m *Members) adoptedBy(owner placement.Owner) (placement.Placed, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	placed, ok := m.adopted[owner]
	return placed, ok
}

func (m *Members) doubt(owner placement.Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unsure[owner] = true
}

func (m *Members) doubts(owner placement.Owner) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsure[owner]
}

// lookFor asks the API server itself for the placement that an owner has adopted.
func (m *Members) lookFor(ctx context.Context, owner placement.Owner) (placed placement.Placed, ok bool, err error) {
	var list corev1.NamespaceList
	if err := m.cluster.live.List(ctx, &list, client.MatchingLabels(owner.Labels())); err != nil {
		return placed, false, fmt.Errorf("looking for the placement: %w", err)
	}
	m.mu.Lock()
	delete(m.unsure, owner)
	m.mu.Unlock()
	for i := range list.Items {
		if p, of := placement.Of(&list.Items[i]); of && p.Owner == owner && list.Items[i].DeletionTimestamp == nil {
			return p, true, nil
		}
	}
	return placed, false, nil
}

// serveWarm reports an instance that has just adopted its placement. Everything in that is as the next look
// would make it: the look that the adoption's own event leads to puts on the finalizer.
func (r *reconciler) serveWarm(ctx context.Context, req request, warm *adopted) error {
	s := warm.scope
	claimsTotal.WithLabelValues(sandbarv1alpha1.StartWarm, "").Inc()
	o := outcome.Outcome{Start: startOf(s, sandbarv1alpha1.StartWarm, "", s.Placement().Adopted.At)}
	o.Plan.Used = inuse.Record{}.Since(s.Placement().Adopted.At)
	o.Instance, o.Composing = r.runtime.unchanged(ctx, s, warm.instance)
	if o.Composing == nil && o.Instance == nil {
		return nil // somebody has deleted it; the next look tells
	}
	var err error
	if o.Observation, err = r.observe(ctx, s, o); err != nil {
		return err
	}
	observed := time.Now()
	if _, err = r.report(ctx, req, s, o); err == nil {
		warm.timed(observed, time.Now())
	}
	return err
}

// timed counts how long the steps of a warm start took.
func (a *adopted) timed(observed, told time.Time) {
	for step, took := range map[string]time.Duration{
		"revision": a.found.Sub(a.began), "adoption": a.at.Sub(a.found), "observation": observed.Sub(a.at), "status": told.Sub(observed),
	} {
		claimStepSeconds.WithLabelValues(step).Observe(took.Seconds())
	}
}

// startUntold says how an instance starts that has its place, if the status that was to say so could not be
// written; nil if it says so, or if the instance has come to be already.
func startUntold(s *scope.Scope) *sandbarv1alpha1.InstanceStart {
	old := s.Status()
	if s.Pod() == nil || old.Start != nil || old.Phase != "" && !slices.Contains(outcome.Beginnings, old.Phase) {
		return nil
	}
	if s.Placement().Born() {
		return startOf(s, sandbarv1alpha1.StartWarm, "", s.Placement().Adopted.At)
	}
	return startOf(s, sandbarv1alpha1.StartCold, sandbarv1alpha1.StartUnknown, time.Time{})
}

// startOf says how an instance starts.
func startOf(s *scope.Scope, kind, reason string, placed time.Time) *sandbarv1alpha1.InstanceStart {
	start := &sandbarv1alpha1.InstanceStart{Type: kind, Reason: reason}
	start.Times.Requested = &metav1.MicroTime{Time: s.Object().GetCreationTimestamp().Time}
	if !placed.IsZero() {
		start.Times.Placed = &metav1.MicroTime{Time: placed}
	}
	if set := s.Placement().Adopted.Set; set != "" {
		start.Set = &sandbarv1alpha1.InstanceStartSet{Name: set}
	}
	return start
}
