// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"fmt"
	"maps"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// memberConcurrency is how many members are made or looked at at once. They have workers of their own: no
// instance waits behind a set that fills up.
const memberConcurrency = 4

// Index finds members by their set, and those that are warm by what they could be adopted for.
const Index = "sandbar.member"

// Indexed are the values of a namespace in that index.
func Indexed(obj client.Object) []string {
	m, ok := placement.MemberOf(obj)
	if !ok {
		return nil
	}
	keys := []string{setKey(export.Key{Cluster: m.Origin, NamespacedName: m.Set})}
	if m.State == placement.MemberWarm && obj.GetDeletionTimestamp() == nil {
		keys = append(keys, warmKey(m.Origin, m.Set.Namespace, m.Template))
	}
	return keys
}

func setKey(set export.Key) string { return "set|" + set.Cluster + "|" + set.String() }

// warmKey finds the members that an object of a namespace can take whose own pod has that revision.
func warmKey(cluster, namespace, revision string) string {
	return "warm|" + cluster + "|" + namespace + "|" + revision
}

// Register adds the controller of members to the manager of the provider workspace. kinds has the kind whose placements are
// kept, and changed is told of each set whose members have changed.
func Register(mgr ctrl.Manager, runtime cluster.Cluster, kinds Kinds, changed func(set export.Key)) (*Members, error) {
	m := New(Options{
		Client: runtime.GetClient(), Live: runtime.GetAPIReader(), Provider: ProviderOf(mgr.GetClient()), Kinds: kinds, Changed: changed,
	})
	if err := runtime.GetFieldIndexer().IndexField(context.Background(), &corev1.Namespace{}, Index, Indexed); err != nil {
		return nil, fmt.Errorf("indexing the members: %w", err)
	}
	skipNameValidation := true
	members, err := controller.New("sandboxset-members", mgr, controller.Options{
		MaxConcurrentReconciles: memberConcurrency, Reconciler: m, UsePriorityQueue: new(bool),
		SkipNameValidation: &skipNameValidation, ReconciliationTimeout: export.ReconcileTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("building the controller of members: %w", err)
	}
	err = members.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.wake = func(namespace string) {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: namespace}})
		}
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("building the controller of members: %w", err)
	}
	informer, err := runtime.GetCache().GetInformer(context.Background(), &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(m.Handler())
	}
	if err != nil {
		return nil, fmt.Errorf("watching the members: %w", err)
	}
	return m, nil
}

// ProviderOf reads the logical cluster of the provider workspace; empty until the operator has configured it.
func ProviderOf(kcp client.Reader) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
		err := kcp.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, infrastructure)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading the InfrastructureProvider: %w", err)
		}
		return logicalcluster.From(infrastructure).String(), nil
	}
}

// Wake has a member looked at.
func (m *Members) Wake(namespace string) {
	m.mu.Lock()
	wake := m.wake
	m.mu.Unlock()
	wake(namespace)
}

// Handler follows the namespaces of members: each that comes is made complete, and of each that comes, changes
// or is lost, by adoption or removal, the set is told.
func (m *Members) Handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { m.seen(nil, obj) },
		UpdateFunc: m.seen,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			m.seen(obj, nil)
		},
	}
}

func (m *Members) seen(before, after any) {
	was, wasMember := memberOf(before)
	is, isMember := memberOf(after)
	if ns, ok := after.(*corev1.Namespace); ok && isMember {
		m.mu.Lock()
		delete(m.made, ns.Name)
		m.mu.Unlock()
		m.Wake(ns.Name)
	} else if ns, ok := after.(*corev1.Namespace); ok {
		m.shown(ns)
	}
	if ns, ok := before.(*corev1.Namespace); ok && wasMember && !isMember {
		m.mu.Lock()
		delete(m.held, ns.Name)
		delete(m.left, ns.Name)
		delete(m.troubles, ns.Name)
		delete(m.instances, ns.Name)
		if after == nil { // adopted or not, it is gone before the cache has shown its owner
			maps.DeleteFunc(m.adopted, func(_ placement.Owner, p placement.Placed) bool { return p.ID == was.ID })
		}
		m.mu.Unlock()
	}
	if isMember && is.State == placement.MemberWarm && was.State != placement.MemberWarm {
		m.offer(is)
	}
	switch {
	case isMember && (!wasMember || was != is):
		m.opts.Changed(export.Key{Cluster: is.Origin, NamespacedName: is.Set})
	case wasMember && !isMember:
		m.opts.Changed(export.Key{Cluster: was.Origin, NamespacedName: was.Set})
	}
}

// offer wakes the instance that waits for a member like this one.
func (m *Members) offer(member placement.Member) {
	m.waiters.offer(warmKey(member.Origin, member.Set.Namespace, member.Template))
}

// shown drops the note of an adoption that the cache shows by now.
func (m *Members) shown(ns *corev1.Namespace) {
	if p, ok := placement.Of(ns); ok && p.Born() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.adopted, p.Owner)
		delete(m.held, ns.Name)
	}
}

func memberOf(obj any) (placement.Member, bool) {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return placement.Member{}, false
	}
	return placement.MemberOf(ns)
}

// Reconcile makes one member complete, and notes how it is.
func (m *Members) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer m.prepared.wake(req.Name) // what has changed is noted by then
	ns := &corev1.Namespace{}
	if err := m.opts.Client.Get(ctx, req.NamespacedName, ns); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	member, ok := placement.MemberOf(ns)
	if !ok || ns.DeletionTimestamp != nil || member.State == placement.MemberLeaving || m.isHeld(ns.Name) {
		return reconcile.Result{}, nil
	}
	kind, offered := m.opts.Kinds.MemberKind()
	if !offered || placement.ProviderOf(ns) != kind.Provider() {
		return reconcile.Result{}, nil // all are looked at when there is one
	}
	m.mu.Lock()
	set, known := m.sets[member.SetUID]
	m.mu.Unlock()
	if !known {
		return reconcile.Result{}, nil // its set wakes it
	}
	return m.converge(ctx, kind, ns, member, set)
}

// converge makes what a member lacks. What it is made of it keeps: one of a former revision is replaced.
func (m *Members) converge(ctx context.Context, kind Kind, ns *corev1.Namespace, member placement.Member, set Set) (reconcile.Result, error) {
	s, err := kind.Scope(member, set, youngStatus(ns.CreationTimestamp))
	if err != nil {
		return reconcile.Result{}, err
	}
	if member.State == placement.MemberMaking {
		m.claims.wait(ctx)
	}
	o, failed := kind.Converge(ctx, s, member.Revision == set.Revision)
	if err := m.note(ctx, kind, s, ns, o); err != nil {
		return reconcile.Result{}, err
	}
	if failed != nil {
		return reconcile.Result{}, failed
	}
	return reconcile.Result{RequeueAfter: o.Recheck}, nil
}

// note marks a member as warm once it is ready, and says what keeps one from that.
func (m *Members) note(ctx context.Context, kind Kind, s *scope.Scope, ns *corev1.Namespace, o outcome.Outcome) error {
	fields, err := outcome.BuildStatus(s, o)
	if err != nil {
		return err
	}
	var status sandbarv1alpha1.InstanceStatus
	if status, err = outcome.StatusOf(fields); err != nil {
		return err
	}
	ready := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition)
	if ready.Status == metav1.ConditionTrue {
		return m.noteReady(ctx, s, ns, o.Instance)
	}
	m.remember(ctx, ns.Name, nil)
	m.told(s, m.trouble(ns.Name, Trouble{
		Reason: troubleReason(o, status), Message: ready.Message, Since: kind.Now(),
		Failing: status.Phase == sandbarv1alpha1.InstanceFailed || status.Phase == sandbarv1alpha1.InstanceDegraded,
		Waits:   status.Phase == sandbarv1alpha1.InstancePendingCapacity,
	}))
	return nil
}

// noteReady marks a member as warm, if it is not yet.
func (m *Members) noteReady(ctx context.Context, s *scope.Scope, ns *corev1.Namespace, instance *unstructured.Unstructured) error {
	m.remember(ctx, ns.Name, instance)
	recovered := m.trouble(ns.Name, Trouble{})
	m.told(s, recovered)
	if s.Member().State != placement.MemberMaking {
		m.told(s, true) // its pod is ready again
		if recovered {
			m.offer(*s.Member())
		}
		return nil
	}
	marked := ns.DeepCopy()
	marked.Labels[placement.LabelMemberState] = placement.MemberWarm
	err := m.opts.Client.Patch(ctx, marked, client.MergeFromWithOptions(ns, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // its event tells
	}
	if err != nil {
		return fmt.Errorf("marking member %s: %w", ns.Name, err)
	}
	return nil
}

// troubleReason names the cause, as docs/lifecycle.md lists them, and not its effect on the condition Ready.
func troubleReason(o outcome.Outcome, status sandbarv1alpha1.InstanceStatus) string {
	if cause := o.Cause(); cause != nil {
		return cause.Reason
	}
	for _, name := range []string{sandbarv1alpha1.InstancePlaced, sandbarv1alpha1.InstanceComposed} {
		if c := meta.FindStatusCondition(status.Conditions, name); c.Status != metav1.ConditionTrue {
			return c.Reason
		}
	}
	return meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceReadyCondition).Reason
}

// told tells the set of a member that has changed.
func (m *Members) told(s *scope.Scope, changed bool) {
	if changed {
		m.opts.Changed(export.Key{Cluster: s.Member().Origin, NamespacedName: s.Member().Set})
	}
}

// youngStatus is that of an object which has not been Ready since it was made.
func youngStatus(made metav1.Time) (status sandbarv1alpha1.InstanceStatus) {
	for _, name := range []string{sandbarv1alpha1.InstanceComposed, sandbarv1alpha1.InstanceReadyCondition} {
		status.Conditions = append(status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: "Making", LastTransitionTime: made})
	}
	return status
}
