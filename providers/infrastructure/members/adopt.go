// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// Serve notes that an instance is about to take a member, until done is called: sets make new ones after that.
func (m *Members) Serve() (done func()) { return m.claims.serve() }

// InLine are the members with a revision that an object may take now: those that are left when all that wait for one, and
// came before it, have theirs. One that requires a member waits in that line from then on, until Leave, and is woken when it
// is its turn.
func (m *Members) InLine(ctx context.Context, s *scope.Scope, revision string, requires bool, wake func()) ([]*corev1.Namespace, error) {
	object := keyOf(s)
	key := warmKey(object.Cluster, object.Namespace, revision)
	me := waiter{req: object, created: s.Object().GetCreationTimestamp().Time, wake: wake}
	if requires {
		m.waiters.join(key, me)
	}
	candidates, err := m.candidates(ctx, s, revision)
	if err != nil {
		return nil, err
	}
	if len(candidates) > 0 && m.prepared.isFor(object, candidates[0].Name) {
		return candidates, nil // it was its turn when that began
	}
	return candidates[min(m.waiters.ahead(key, me), len(candidates)):], nil
}

// Leave notes that an object does not wait for a member any more.
func (m *Members) Leave(object export.Key) { m.waiters.leave(object) }

// Waiting is how many objects wait for a member.
func (m *Members) Waiting() int { return m.waiters.count() }

// keyOf names the object of a scope.
func keyOf(s *scope.Scope) export.Key {
	return export.Key{Cluster: s.Placement().Owner.Cluster, NamespacedName: s.Placement().Object}
}

// WhyCold is why there is no candidate.
func (m *Members) WhyCold(cluster, namespace, revision string) string {
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
// which to try them: the one that is being prepared for it; unpatched ones, those whose resources are the object's own, those
// that can get these in place, and others; then sets with a higher priority, then those with more, then by name; of one set
// the oldest member first.
func (m *Members) candidates(ctx context.Context, s *scope.Scope, revision string) ([]*corev1.Namespace, error) {
	var list corev1.NamespaceList
	// What is listed is only read: a copy of each member would be made for each claim.
	err := m.opts.Client.List(ctx, &list, client.UnsafeDisableDeepCopy,
		client.MatchingFields{Index: warmKey(s.Placement().Owner.Cluster, s.Object().GetNamespace(), revision)})
	if err != nil {
		return nil, fmt.Errorf("listing the members: %w", err)
	}
	object := keyOf(s)
	var all []candidateMember
	available := map[types.UID]int{}
	for i := range list.Items {
		ns := &list.Items[i]
		member, ok := placement.MemberOf(ns)
		if !ok || ns.DeletionTimestamp != nil || m.isHeld(ns.Name) || m.prepared.isForOther(object, ns.Name) || placement.ProviderOf(ns) != s.Provider() {
			continue
		}
		ready, started, err := m.usable(ctx, ns.Name)
		if err != nil {
			return nil, err
		}
		age := Member{Member: member, Created: ns.CreationTimestamp.Time, Started: started}.Age(m.now())
		if ready && !m.tooOld(member.SetUID, age) {
			available[member.SetUID]++
			all = append(all, candidateMember{
				namespace: ns, set: member.Set.Name, uid: member.SetUID, patch: m.patchOf(member), priority: m.priority(member.SetUID), mine: m.prepared.isFor(object, ns.Name),
			})
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
	// mine is set if it is being prepared for the object.
	mine bool
}

// byPatch is the order of preference among members: what the object itself would get comes first, then what only
// differs in other fields than its resources, then what can get those in place, and then the rest.
var byPatch = map[placement.MemberPatch]int{
	placement.Unpatched: 0, placement.PatchedResourcesEqual: 1, placement.PatchedResizable: 2, placement.PatchedResourcesDiffer: 3,
}

// order compares two candidates; the one to try first is the lesser.
func order(a, b candidateMember, available map[types.UID]int) int {
	last := map[bool]int{true: 0, false: 1}
	return cmp.Or(
		cmp.Compare(last[a.mine], last[b.mine]),
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

// PatchOf says how the pod of a member differs from that of its set's template, by what the set says now.
func (m *Members) PatchOf(namespace *corev1.Namespace) placement.MemberPatch {
	member, _ := placement.MemberOf(namespace)
	return m.patchOf(member)
}

// patchOf believes the member's own word of a set that this process has not looked at yet, or that has another revision now.
func (m *Members) patchOf(member placement.Member) placement.MemberPatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if set, known := m.sets[member.SetUID]; known && set.Revision == member.Revision {
		return set.Differs
	}
	return member.Patch
}

func (m *Members) priority(set types.UID) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sets[set].Priority
}

// Take makes a member the placement of an object; nil if somebody else was faster. instance is the member's kro instance as
// it was last looked at, nil if that is not remembered.
func (m *Members) Take(ctx context.Context, s *scope.Scope, member *corev1.Namespace) (placed *placement.Placed, instance *unstructured.Unstructured, err error) {
	if !m.hold(member.Name) {
		return nil, nil, nil // another reconcile of this process has it
	}
	instance = m.lookedAt(member.Name) // the event of the adoption drops it
	data, err := adoption(s, member, m.now())
	if err != nil {
		m.release(member.Name)
		return nil, nil, err
	}
	after := &corev1.Namespace{}
	after.Name = member.Name
	err = m.opts.Client.Patch(ctx, after, client.RawPatch(types.MergePatchType, data), client.FieldOwner(fieldOwner))
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
	m.prepared.forget(export.Key{Cluster: placed.Owner.Cluster, NamespacedName: placed.Object})
}

// Adopted is the placement that an owner has adopted and that the cache does not show yet.
func (m *Members) Adopted(owner placement.Owner) (placement.Placed, bool) {
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

// Doubts reports whether an owner may have adopted a member although the answer said otherwise, or none came.
func (m *Members) Doubts(owner placement.Owner) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsure[owner]
}

// LookFor asks the API server itself for the placement that an owner has adopted.
func (m *Members) LookFor(ctx context.Context, owner placement.Owner) (placed placement.Placed, ok bool, err error) {
	var list corev1.NamespaceList
	if err := m.opts.Live.List(ctx, &list, client.MatchingLabels(owner.Labels())); err != nil {
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
