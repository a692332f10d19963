// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// sandboxes is the kind whose placements SandboxSets keep.
const sandboxes = "Sandbox"

// ErrNoKind means that no Template of the provider has the kind Sandbox, or none that is followed yet.
var ErrNoKind = errors.New("the provider offers no Sandboxes")

// Members are the placements that sets keep for somebody. Package sandboxset says how many there are to be;
// this makes, watches and removes them, and gives them to the instances that take them (adopt.go).
//
// What a member is, and whether it may be adopted, its namespace says: nothing of that is lost with this
// process, and an adoption and a removal write that namespace under the version that they have read.
type Members struct {
	cluster runtimeCluster
	// provider is the logical cluster of the provider workspace. Members of another provider are never touched.
	provider func(context.Context) (string, error)
	// runner is that of the kind Sandbox; nil while there is none.
	runner func() *runner
	now    func() time.Time

	patched   *patchedBases
	sandboxes *Sandboxes
	// claims go before new members.
	claims *claimsFirst
	// waiters are the instances that start with a member or not at all.
	waiters *waiters

	mu sync.Mutex
	// sets are what package sandboxset last said of each set, by its UID.
	sets map[types.UID]Set
	// held are the namespaces of members that are being adopted, or were, until the cache shows that.
	held map[string]bool
	// adopted are the placements that the cache does not show as adopted yet, by their owners.
	adopted map[placement.Owner]placement.Placed
	// unsure are the owners of an adoption that may or may not have been written.
	unsure map[placement.Owner]bool
	// made and left are the members that were made, or marked to leave, and that the cache does not show so
	// yet: a set that counted by the cache alone would make, or remove, another one in their place.
	made map[string]Member
	left map[string]bool
	// troubles are why members do not come up, by namespace.
	troubles map[string]Trouble
	claimed  map[types.UID]Claims
	// instances are the kro instances of warm members as they were last looked at, by namespace.
	instances map[string]*unstructured.Unstructured
	// wake has a member looked at, changed its set.
	wake    func(namespace string)
	changed func(export.Key)
}

// Set is what a set wants its members to be.
type Set struct {
	Key export.Key
	UID types.UID
	// Template is the name of the SandboxTemplate, or of the provider's Template, that it is made of.
	Template sandbarv1alpha1.PodTemplateRef
	// Field is the field of the set that says so, for messages.
	Field string
	// Change is what the set makes different in the pods of its template.
	Change scope.PodChange
	Made
	Priority int32
	// MaxAge is how long after its pod's start a member may be taken; zero: for ever.
	MaxAge time.Duration
}

// Made is what the members of a set would be if they were made now.
type Made struct {
	// Revision is of the pod, with the set's patch, and TemplateRevision without it.
	Revision, TemplateRevision string
	// Differs says how the two pods differ.
	Differs placement.MemberPatch
	// PodSecurity is the pod security level of their placements.
	PodSecurity string
}

// Member is one that is there.
type Member struct {
	placement.Member

	// namespace is nil while the cache does not show it.
	namespace *corev1.Namespace
	// Ready is whether its pod is, now; Going whether it is being deleted.
	Ready   bool
	Going   bool
	Created time.Time
	// Started is when its pod came to a node; zero while it has not.
	Started time.Time
	// Trouble is why it does not come up; zero if nothing says so.
	Trouble Trouble
}

// Age is for how long a member's pod has been on its node. A member that still waits for a node has no age: it
// keeps its place until there is room.
func (m Member) Age(now time.Time) time.Duration {
	switch {
	case !m.Started.IsZero():
		return now.Sub(m.Started)
	case m.State == placement.MemberWarm:
		return now.Sub(m.Created) // its pod is being replaced
	}
	return 0
}

// Trouble is why a member does not come up.
type Trouble struct {
	Reason, Message string
	// Failing is set if it will not mend itself soon.
	Failing bool
	// Waits is set if there is no room for it now: it comes up as soon as there is.
	Waits bool
	// Since is when it began.
	Since time.Time
}

// Claims are how many members were taken out of a set since that was last asked.
type Claims struct {
	Count int64
	Last  time.Time
}

func newMembers(cluster runtimeCluster, provider func(context.Context) (string, error)) *Members {
	m := &Members{
		cluster: cluster, provider: provider, runner: func() *runner { return nil }, now: time.Now, waiters: newWaiters(), claims: newClaimsFirst(), patched: newPatchedBases(), sets: map[types.UID]Set{}, held: map[string]bool{},
		adopted: map[placement.Owner]placement.Placed{}, unsure: map[placement.Owner]bool{}, made: map[string]Member{}, left: map[string]bool{}, troubles: map[string]Trouble{}, instances: map[string]*unstructured.Unstructured{}, claimed: map[types.UID]Claims{},
		wake: func(string) {}, changed: func(export.Key) {},
	}
	m.sandboxes = &Sandboxes{members: m, changed: func(export.Key) {}}
	return m
}

// OnChanged sets who is told of a set whose members have changed. Set it before the manager starts.
func (m *Members) OnChanged(told func(export.Key)) { m.changed = told }

// Configure notes what a set says.
func (m *Members) Configure(set Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets[set.UID] = set
}

// Forget drops what was noted of a set, which is gone.
func (m *Members) Forget(key export.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, set := range m.sets {
		if set.Key == key {
			delete(m.sets, uid)
			delete(m.claimed, uid)
		}
	}
}

// TakeClaims returns how many members were taken since it was last asked. Return what could not be written.
func (m *Members) TakeClaims(set types.UID) Claims {
	m.mu.Lock()
	defer m.mu.Unlock()
	claims := m.claimed[set]
	delete(m.claimed, set)
	return claims
}

// ReturnClaims gives back what TakeClaims returned.
func (m *Members) ReturnClaims(set types.UID, claims Claims) {
	if claims.Count == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.claimed[set]
	now.Count += claims.Count
	if now.Last.Before(claims.Last) {
		now.Last = claims.Last
	}
	m.claimed[set] = now
}

// Of lists the members of all sets that have, or had, a name, as the caches have them.
func (m *Members) Of(ctx context.Context, set export.Key) ([]Member, error) {
	var list corev1.NamespaceList
	if err := m.cluster.client.List(ctx, &list, client.MatchingFields{memberIndex: setKey(set)}); err != nil {
		return nil, fmt.Errorf("listing the members of SandboxSet %s: %w", set.Name, err)
	}
	provider, err := m.provider(ctx)
	if err != nil {
		return nil, err
	}
	var all []Member
	for i := range list.Items {
		ns := &list.Items[i]
		member, ok := placement.MemberOf(ns)
		if !ok || m.isHeld(ns.Name) || ns.Annotations[placement.AnnotationProvider] != provider {
			continue
		}
		ready, started, err := m.usable(ctx, ns.Name)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		if ns.DeletionTimestamp != nil || m.left[ns.Name] {
			member.State = placement.MemberLeaving
		}
		trouble := m.troubles[ns.Name]
		m.mu.Unlock()
		all = append(all, Member{
			Member: member, namespace: ns, Ready: ready, Going: ns.DeletionTimestamp != nil,
			Created: ns.CreationTimestamp.Time, Started: started, Trouble: trouble,
		})
	}
	all = append(all, m.unseen(set, all)...)
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.UID, b.UID) })
	return all, nil
}

// unseen are the members of a set that were made and that the cache has not shown. The place of one that it
// does not show for long is given back; it counts again if the cache shows it after all.
func (m *Members) unseen(set export.Key, seen []Member) (all []Member) {
	r, _ := m.reconciler()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, made := range m.made {
		switch shown := slices.ContainsFunc(seen, func(s Member) bool { return s.ID == made.ID }); {
		case shown:
			delete(m.made, name)
		case time.Since(made.Created) > unseenMost:
			delete(m.made, name)
			if r != nil {
				r.capacity.giveBack(made.ID)
			}
		case made.Set == set.NamespacedName && made.Origin == set.Cluster:
			all = append(all, made)
		}
	}
	return all
}

// unseenMost is for how long a member counts that was made and that the cache does not show: it may have been
// removed before the cache could.
const unseenMost = time.Minute

func (m *Members) isHeld(namespace string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[namespace]
}

// usable reports whether a member has a pod that is ready, and that goes on being so: one that is started
// again and again is ready for a moment each time. started is when the pod came to a node, zero if it has not.
func (m *Members) usable(ctx context.Context, namespace string) (ready bool, started time.Time, err error) {
	m.mu.Lock()
	failing := m.troubles[namespace].Failing
	m.mu.Unlock()
	var pods corev1.PodList
	if err := m.cluster.client.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, started, fmt.Errorf("listing the pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.StartTime != nil {
			started = pod.Status.StartTime.Time
		}
		if !failing && outcome.PodServes(pod) {
			return true, started, nil
		}
	}
	return false, started, nil
}

// Revision is what a set's members would be now, with the pod to be tried. The error is an *outcome.RefusalError if
// they would have none, and ErrNoKind while there are no Sandboxes. If only what the set changes is refused, the
// revision of the template is there.
func (m *Members) Revision(ctx context.Context, set Set) (made Made, pod *podtemplate.Pod, err error) {
	r, err := m.reconciler()
	if err != nil {
		return made, nil, err
	}
	s, err := r.memberScope(placement.Member{ID: placement.ID{Origin: set.Key.Cluster}, Set: set.Key.NamespacedName, SetUID: set.UID}, set, sandbarv1alpha1.InstanceStatus{})
	if err != nil {
		return made, nil, err
	}
	plain, err := r.revisionPod(ctx, s, scope.PodChange{})
	if err != nil {
		return made, nil, err
	}
	made = Made{Revision: plain.revision, TemplateRevision: plain.revision, PodSecurity: s.PodSecurity()}
	if set.Change == (scope.PodChange{}) {
		return made, plain.pod, nil
	}
	patched, err := r.patchedPod(ctx, s, set.Change)
	if err != nil {
		return made, nil, err
	}
	made.Revision, made.Differs = patched.revision, patchOf(plain.pod, patched.pod)
	return made, patched.pod, nil
}

// Make begins a member: its namespace. What belongs into it is made when that is there. The error is an
// *outcome.FullError if there is no room.
func (m *Members) Make(ctx context.Context, set Set) error {
	r, err := m.reconciler()
	if err != nil {
		return err
	}
	member := placement.Member{
		ID: placement.Bear(set.Key.Cluster), SetUID: set.UID, Set: set.Key.NamespacedName, State: placement.MemberMaking,
		Revision: set.Revision, Template: set.TemplateRevision, Patch: set.Differs,
	}
	s, err := r.memberScope(member, set, sandbarv1alpha1.InstanceStatus{})
	if err != nil {
		return err
	}
	m.claims.wait(ctx)
	if err := r.capacity.admitMember(member.ID, s.Infrastructure().Limits); err != nil {
		return err
	}
	ns := place.BuildNamespace(s)
	if err := m.cluster.client.Create(ctx, ns, client.FieldOwner(fieldOwner)); err != nil {
		r.capacity.giveBack(member.ID)
		return fmt.Errorf("creating a member of SandboxSet %s: %w", set.Key.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[ns.Name] = Member{Member: member, Created: time.Now()}
	return nil
}

// Remove removes a member, unless somebody adopts it. It is marked first, under the version that was read,
// so that of an adoption at the same moment and this one only one can be.
func (m *Members) Remove(ctx context.Context, member Member) error {
	if member.namespace == nil {
		return nil // the next look removes it
	}
	if member.namespace.Labels[placement.LabelMemberState] != placement.MemberLeaving {
		marked := member.namespace.DeepCopy()
		marked.Labels[placement.LabelMemberState] = placement.MemberLeaving
		err := m.cluster.client.Patch(ctx, marked, client.MergeFromWithOptions(member.namespace, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil // adopted, or gone; its event tells
		}
		if err != nil {
			return fmt.Errorf("marking member %s: %w", member.namespace.Name, err)
		}
		m.mu.Lock()
		m.left[marked.Name] = true
		m.mu.Unlock()
	}
	if member.namespace.DeletionTimestamp != nil {
		return nil
	}
	return m.cluster.delete(ctx, member.namespace)
}

// remember keeps the kro instance of a member that can be taken, so that a claim need not read it; nil drops it.
func (m *Members) remember(ctx context.Context, namespace string, instance *unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Once the cache shows that it is no member, nothing would drop it any more: its event did, or waits for the lock.
	ns := &corev1.Namespace{}
	err := m.cluster.client.Get(ctx, types.NamespacedName{Name: namespace}, ns)
	if _, isMember := placement.MemberOf(ns); err != nil || !isMember || instance == nil {
		delete(m.instances, namespace)
		return
	}
	kept := instance.DeepCopy()
	kept.SetManagedFields(nil) // nobody reads them, and they are as large as the rest
	m.instances[namespace] = kept
}

// lookedAt is what remember has kept of a member; nil if it has kept nothing.
func (m *Members) lookedAt(namespace string) *unstructured.Unstructured {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.instances[namespace]
}

func (m *Members) reconciler() (*reconciler, error) {
	runner := m.runner()
	if runner == nil {
		return nil, ErrNoKind
	}
	return runner.instances, nil
}

func (m *Members) trouble(namespace string, t Trouble) (changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, known := m.troubles[namespace]
	if t == (Trouble{}) {
		delete(m.troubles, namespace)
		return known
	}
	if known && was.Failing == t.Failing && was.Waits == t.Waits && was.Reason == t.Reason {
		t.Since = was.Since
	}
	m.troubles[namespace] = t
	return was != t
}
