// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// candidate is an instance that may want a place.
type candidate struct {
	owner   placement.Owner
	req     request
	created time.Time
	// wake has the instance reconciled.
	wake func()
}

func byAge(a, b candidate) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.owner.UID, b.owner.UID))
}

// capacity bounds how many instances are placed: per workspace and in all. All kinds share it,
// so that concurrent reconciles of several kinds do not each take the last place.
//
// A place is taken from the moment in which an instance is admitted: by a reservation first, and
// by its Namespace when the cache has seen that. The oldest instance without a place comes
// first, and what has a place keeps it.
type capacity struct {
	mu sync.Mutex
	// placed are the Namespaces of placements by their owners' logical cluster and UID, as the cache has
	// them. An owner has one place, also while it has two: until the last of them is gone.
	placed map[string]map[types.UID][]string
	total  int
	// reserved are owners whose Namespace the cache has not seen yet, by logical cluster.
	reserved map[string]map[types.UID]bool
	// waiting are the logical clusters in which an instance was refused.
	waiting map[string]bool
	// ghosts are instances that are gone for certain although a watch still shows them: kcp's informers
	// can miss a deletion (kcp#4364).
	ghosts map[placement.Owner]bool
	// apart are instances that start with a member or not at all, and compound ones. They want no place of their own, and must not
	// keep one from others, least of all from the member that they wait for.
	apart map[placement.Owner]bool
	// kinds list the instances of a logical cluster, by Template.
	kinds  map[string]func(cluster string) []candidate
	limits sandbarv1alpha1.PlacementLimits
}

func newCapacity() *capacity {
	return &capacity{
		placed: map[string]map[types.UID][]string{}, reserved: map[string]map[types.UID]bool{},
		waiting: map[string]bool{}, ghosts: map[placement.Owner]bool{}, apart: map[placement.Owner]bool{}, kinds: map[string]func(string) []candidate{},
	}
}

// watch follows the Namespaces of placements, and returns when all that exist are counted. Those of another provider on
// the runtime cluster take no place of this one's.
func (c *capacity) watch(ctx context.Context, namespaces cache.Informer, provider func(context.Context) (string, error)) error {
	registration, err := namespaces.AddEventHandler(toolscache.FilteringResourceEventHandler{FilterFunc: madeBy(ctx, provider), Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.seen(obj) },
		UpdateFunc: func(before, after any) {
			if was, ok := countedPlacement(before); ok {
				if is, also := countedPlacement(after); !also || is != was {
					c.changed(was, after) // it has got an owner
				}
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			c.gone(obj)
		},
	}})
	if err != nil {
		return fmt.Errorf("watching the placements: %w", err)
	}
	toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
	return nil
}

// madeBy reports whether a Namespace may be one that a provider has made: of a tombstone, and while the provider is not
// known, that cannot be told, and a place too few is given rather than one too many.
func madeBy(ctx context.Context, provider func(context.Context) (string, error)) func(obj any) bool {
	return func(obj any) bool {
		ns, ok := obj.(*corev1.Namespace)
		if !ok {
			return true
		}
		name, err := provider(ctx)
		return err != nil || name == "" || placement.ProviderOf(ns) == name
	}
}

// changed counts a Namespace for whose it is now.
func (c *capacity) changed(was counted, after any) {
	c.mu.Lock()
	c.leave(was)
	c.mu.Unlock()
	c.seen(after)
}

// take notes the Namespace of an owner, which has a place by it.
func (c *capacity) take(p counted) {
	has := c.placed[p.cluster][p.uid]
	if len(has) == 0 {
		c.total++
	}
	if !slices.Contains(has, p.namespace) {
		put(c.placed, p.cluster, p.uid, append(has, p.namespace))
	}
}

// leave forgets a Namespace of an owner. The owner keeps its place if it has another one: without it, it would be given a
// third, and lose what it has.
func (c *capacity) leave(p counted) {
	has := c.placed[p.cluster][p.uid]
	left := slices.DeleteFunc(slices.Clone(has), func(namespace string) bool { return namespace == p.namespace })
	switch {
	case len(left) == len(has):
	case len(left) > 0:
		put(c.placed, p.cluster, p.uid, left)
	default:
		c.total--
		drop(c.placed, p.cluster, p.uid)
	}
}

// seen counts a Namespace instead of its reservation.
func (c *capacity) seen(obj any) {
	p, ok := countedPlacement(obj)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(p)
	drop(c.reserved, p.cluster, p.uid)
}

func (c *capacity) gone(obj any) {
	p, ok := countedPlacement(obj)
	if !ok {
		return
	}
	c.mu.Lock()
	c.leave(p)
	c.mu.Unlock()
	c.freed(p.cluster)
}

// counted is for whom a Namespace counts: its owner or, while it is a set's, itself.
type counted struct {
	cluster   string
	uid       types.UID
	namespace string
}

func countedPlacement(obj any) (c counted, ok bool) {
	ns, isObject := obj.(metav1.Object)
	if !isObject {
		return c, false
	}
	if m, ok := placement.MemberOf(ns); ok {
		return counted{m.Origin, m.UID, ns.GetName()}, true
	}
	p, ok := placement.Of(ns)
	return counted{p.Owner.Cluster, p.Owner.UID, ns.GetName()}, ok
}

// holds reports whether an owner has a place.
func (c *capacity) holds(owner placement.Owner) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.placed[owner.Cluster][owner.UID]) > 0 || c.reserved[owner.Cluster][owner.UID]
}

// adopted gives an owner the place of the member that it has taken, before the cache shows that.
func (c *capacity) adopted(id placement.ID, owner placement.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.apart, owner)
	c.leave(counted{id.Origin, id.UID, id.Namespace()})
	c.take(counted{owner.Cluster, owner.UID, id.Namespace()})
}

// admitMember gives a member that is about to be made a place, or returns a *fullError. Instances that wait
// come first.
func (c *capacity) admitMember(id placement.ID, limits *sandbarv1alpha1.Limits) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = sandbarv1alpha1.PlacementLimits{}
	if limits != nil {
		c.limits = limits.PlacementLimits
	}
	waiting := len(c.unplaced(id.Origin))
	switch {
	case c.room(id.Origin) <= waiting:
		return &outcome.FullError{Reason: outcome.ReasonWorkspaceLimit, Message: fmt.Sprintf("the workspace may have %d instances at once, and what its "+
			"sets keep ready counts; delete an instance, or ask the operator for more (spec.limits.instancesPerWorkspace)", c.perWorkspace())}
	case c.roomInAll() <= 0:
		return &outcome.FullError{Reason: outcome.ReasonPlacementsLimit, Message: "the runtime cluster has as many instances as the operator allows (spec.limits.placements)"}
	}
	put(c.reserved, id.Origin, id.UID, true)
	return nil
}

// giveBack gives back the place of a member that was not made.
func (c *capacity) giveBack(id placement.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	drop(c.reserved, id.Origin, id.UID)
}

// standAside notes whether an instance wants no place of its own.
func (c *capacity) standAside(owner placement.Owner, aside bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if aside {
		c.apart[owner] = true
	} else {
		delete(c.apart, owner)
	}
}

// never notes that an instance has no place in all its life, and wakes those that have waited behind it.
func (c *capacity) never(owner placement.Owner) {
	c.mu.Lock()
	noted := c.apart[owner]
	c.apart[owner] = true
	c.mu.Unlock()
	if !noted {
		c.freed(owner.Cluster)
	}
}

// follow adds the instances of a kind to those that may want a place; nil removes them.
func (c *capacity) follow(template string, instances func(cluster string) []candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if instances == nil {
		delete(c.kinds, template)
		return
	}
	c.kinds[template] = instances
}

// admit gives an instance a place, or returns a *fullError. An instance that has one is always
// admitted, also above a limit that was lowered.
func (c *capacity) admit(me candidate, limits *sandbarv1alpha1.Limits) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = sandbarv1alpha1.PlacementLimits{}
	if limits != nil {
		c.limits = limits.PlacementLimits
	}
	cluster := me.owner.Cluster
	delete(c.ghosts, me.owner) // a former one of its name was meant
	if len(c.placed[cluster][me.owner.UID]) > 0 || c.reserved[cluster][me.owner.UID] {
		return nil
	}
	older := slices.DeleteFunc(c.unplaced(cluster), func(other candidate) bool { return byAge(other, me) >= 0 })
	if len(older) > 0 && c.room(cluster) > 0 && c.roomInAll() > 0 {
		// It may take the place, or be a ghost.
		slices.MinFunc(older, byAge).wake()
	}
	switch {
	case c.room(cluster) <= len(older):
		return c.refuse(cluster, outcome.ReasonWorkspaceLimit, fmt.Sprintf("the workspace may have %d instances at once, of all kinds together and with those that its SandboxSets keep ready; "+
			"delete one, or ask the operator for more (spec.limits.instancesPerWorkspace). "+
			"The oldest one that waits is placed as soon as there is room", c.perWorkspace()))
	case c.roomInAll() <= 0:
		return c.refuse(cluster, outcome.ReasonPlacementsLimit, "the runtime cluster has as many instances as the operator allows "+
			"(spec.limits.placements); this one is placed as soon as there is room")
	}
	put(c.reserved, cluster, me.owner.UID, true)
	return nil
}

func (c *capacity) refuse(cluster, reason, message string) error {
	c.waiting[cluster] = true
	limitRefusalsTotal.WithLabelValues(reason).Inc()
	return &outcome.FullError{Reason: reason, Message: message}
}

func (c *capacity) perWorkspace() int {
	return int(*cmp.Or(c.limits.InstancesPerWorkspace, new(int32(sandbarv1alpha1.DefaultInstancesPerWorkspace))))
}

func (c *capacity) inAll() int {
	return int(*cmp.Or(c.limits.Placements, new(int32(sandbarv1alpha1.DefaultPlacements))))
}

func (c *capacity) room(cluster string) int {
	return c.perWorkspace() - len(c.placed[cluster]) - len(c.reserved[cluster])
}

func (c *capacity) roomInAll() int {
	room := c.inAll() - c.total
	for _, names := range c.reserved {
		room -= len(names)
	}
	return room
}

// unplaced lists the instances of a workspace without a place, and gives back reservations of
// instances that are gone.
func (c *capacity) unplaced(cluster string) []candidate {
	var without []candidate
	kept, shown := map[types.UID]bool{}, map[placement.Owner]bool{}
	for _, instances := range c.kinds {
		for _, instance := range instances(cluster) {
			switch uid := instance.owner.UID; {
			case c.ghosts[instance.owner], c.apart[instance.owner]:
				shown[instance.owner] = true
			case len(c.placed[cluster][uid]) > 0:
			case c.reserved[cluster][uid]:
				kept[uid] = true
			default:
				without = append(without, instance)
			}
		}
	}
	for _, some := range []map[placement.Owner]bool{c.ghosts, c.apart} {
		maps.DeleteFunc(some, func(owner placement.Owner, _ bool) bool { return owner.Cluster == cluster && !shown[owner] })
	}
	for uid := range c.reserved[cluster] {
		if !kept[uid] && !(placement.ID{UID: uid}).Born() {
			drop(c.reserved, cluster, uid)
		}
	}
	return without
}

// lost is told that kcp does not have an instance, whatever the watch shows: it takes no place from
// others. A new one of the same name counts again when it is admitted.
func (c *capacity) lost(template string, req request) {
	c.mu.Lock()
	if instances := c.kinds[template]; instances != nil {
		for _, instance := range instances(req.Cluster) {
			if instance.req == req {
				c.ghosts[instance.owner] = true
			}
		}
	}
	c.mu.Unlock()
	c.freed(req.Cluster)
}

// freed wakes instances that wait, the oldest first and no more than there is room for: those
// of a workspace in which something has gone, and those of others that have room of their own and wait
// for room in all. What was reserved for an instance that is gone is given back first.
func (c *capacity) freed(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unplaced(cluster)
	var next []candidate
	left := map[string]int{} // that wait, by logical cluster
	for other := range c.waiting {
		if other != cluster && c.room(other) <= 0 {
			continue
		}
		without := c.unplaced(other)
		left[other] = len(without)
		slices.SortFunc(without, byAge)
		next = append(next, without[:min(len(without), max(c.room(other), 0))]...)
	}
	slices.SortFunc(next, byAge)
	for _, woken := range next[:min(len(next), max(c.roomInAll(), 0))] {
		woken.wake()
		left[woken.owner.Cluster]--
	}
	for other, waiting := range left {
		if waiting == 0 {
			delete(c.waiting, other)
		}
	}
}

func put[V any](all map[string]map[types.UID]V, cluster string, uid types.UID, value V) {
	if all[cluster] == nil {
		all[cluster] = map[types.UID]V{}
	}
	all[cluster][uid] = value
}

func drop[V any](all map[string]map[types.UID]V, cluster string, uid types.UID) {
	delete(all[cluster], uid)
	if len(all[cluster]) == 0 {
		delete(all, cluster)
	}
}
