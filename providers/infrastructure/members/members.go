// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

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
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

// fieldOwner owns what the provider writes.
const fieldOwner = "sandbar"

// ErrNoKind means that no Template of the provider has the kind whose placements sets keep, or none that is followed yet.
var ErrNoKind = errors.New("the provider offers no Sandboxes")

// Members are the placements that sets keep for somebody. Package sandboxset says how many there are to be;
// this makes, watches and removes them, and gives them to the instances that take them.
//
// What a member is, and whether it may be adopted, its namespace says: nothing of that is lost with this
// process, and an adoption and a removal write that namespace under the version that they have read.
type Members struct {
	opts Options
	now  func() time.Time
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
	// prepared are the members that are being given other resources for one instance each.
	prepared *preparations
	// wake has a member looked at.
	wake func(namespace string)
}

// Options are what Members need. All are required but Now.
type Options struct {
	// Client reads the runtime cluster from its cache and writes there, Live reads it from its API server.
	Client client.Client
	Live   client.Reader
	// Provider is the logical cluster of the provider workspace; empty until the operator has configured it. Members of
	// another provider are never touched.
	Provider func(context.Context) (string, error)
	// Kinds has the kind whose placements are kept.
	Kinds Kinds
	// Changed is told of each set whose members have changed.
	Changed func(set export.Key)
	// Now is the time. Defaults to time.Now.
	Now func() time.Time
}

// New returns Members of which this process has seen none yet.
func New(opts Options) *Members {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Members{
		opts: opts, now: opts.Now, claims: newClaimsFirst(), waiters: newWaiters(),
		sets: map[types.UID]Set{}, held: map[string]bool{}, adopted: map[placement.Owner]placement.Placed{}, unsure: map[placement.Owner]bool{},
		made: map[string]Member{}, left: map[string]bool{}, troubles: map[string]Trouble{}, claimed: map[types.UID]Claims{},
		instances: map[string]*unstructured.Unstructured{}, wake: func(string) {}, prepared: newPreparations(),
	}
}

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
	if err := m.opts.Client.List(ctx, &list, client.MatchingFields{Index: setKey(set)}); err != nil {
		return nil, fmt.Errorf("listing the members of SandboxSet %s: %w", set.Name, err)
	}
	provider, err := m.opts.Provider(ctx)
	if err != nil {
		return nil, err
	}
	var all []Member
	for i := range list.Items {
		ns := &list.Items[i]
		member, ok := placement.MemberOf(ns)
		if !ok || m.isHeld(ns.Name) || m.prepared.has(ns.Name) || placement.ProviderOf(ns) != provider {
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
	kind, ok := m.opts.Kinds.MemberKind()
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, made := range m.made {
		switch shown := slices.ContainsFunc(seen, func(s Member) bool { return s.ID == made.ID }); {
		case shown:
			delete(m.made, name)
		case m.now().Sub(made.Created) > unseenMost:
			delete(m.made, name)
			if ok {
				kind.GiveBack(made.ID)
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
	if err := m.opts.Client.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
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
func (m *Members) Revision(ctx context.Context, set Set) (Made, *podtemplate.Pod, error) {
	kind, ok := m.opts.Kinds.MemberKind()
	if !ok {
		return Made{}, nil, ErrNoKind
	}
	return kind.Made(ctx, set)
}

// Make begins a member: its namespace. What belongs into it is made when that is there. The error is an
// *outcome.FullError if there is no room.
func (m *Members) Make(ctx context.Context, set Set) error {
	kind, ok := m.opts.Kinds.MemberKind()
	if !ok {
		return ErrNoKind
	}
	member := placement.Member{
		ID: placement.Bear(set.Key.Cluster), SetUID: set.UID, Set: set.Key.NamespacedName, State: placement.MemberMaking,
		Revision: set.Revision, Template: set.TemplateRevision, Patch: set.Differs,
	}
	s, err := kind.Scope(member, set, sandbarv1alpha1.InstanceStatus{})
	if err != nil {
		return err
	}
	m.claims.wait(ctx)
	if err := kind.Admit(member.ID, s.Infrastructure().Limits); err != nil {
		return err
	}
	ns := place.BuildNamespace(s)
	if err := m.opts.Client.Create(ctx, ns, client.FieldOwner(fieldOwner)); err != nil {
		kind.GiveBack(member.ID)
		return fmt.Errorf("creating a member of SandboxSet %s: %w", set.Key.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[ns.Name] = Member{Member: member, Created: m.now()}
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
		err := m.opts.Client.Patch(ctx, marked, client.MergeFromWithOptions(member.namespace, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
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
	return runtimecluster.Delete(ctx, m.opts.Client, member.namespace)
}

// remember keeps the kro instance of a member that can be taken, so that a claim need not read it; nil drops it.
func (m *Members) remember(ctx context.Context, namespace string, instance *unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Once the cache shows that it is not a member, nothing would drop it any more: its event did, or waits for the lock.
	ns := &corev1.Namespace{}
	err := m.opts.Client.Get(ctx, types.NamespacedName{Name: namespace}, ns)
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
