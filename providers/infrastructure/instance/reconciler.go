// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/serving"
)

// tenantObjects reads and writes tenants' objects of one kind; *export.Objects does it against kcp.
type tenantObjects interface {
	// Known reports whether the watch has shown the object. It holds no more than metadata, and may
	// be stale for long: kcp's informers can miss a deletion (kcp#4364).
	Known(req request) bool
	// Live asks kcp, in the object's own workspace. export.IsGone recognizes the answer that the object is
	// gone for certain; any other error leaves that open.
	Live(ctx context.Context, req request) (*unstructured.Unstructured, error)
	// Patch writes a JSON merge patch and returns the object as it then is.
	Patch(ctx context.Context, req request, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	// Remove deletes the object if it still is as it was read.
	Remove(ctx context.Context, req request, read *unstructured.Unstructured) error
	// Record writes an event beside the object.
	Record(ctx context.Context, req request, event *corev1.Event) error
	// Secret reads a Secret beside the object that its workspace shares with the provider; see export.Objects.
	Secret(ctx context.Context, req request, name string) (*corev1.Secret, error)
	// WorkspacePath is the path of a workspace, for people; empty when it is not known.
	WorkspacePath(ctx context.Context, cluster string) string
}

// SandboxTemplates reads those of tenants; *sandboxtemplate.Templates does it against kcp.
type SandboxTemplates interface {
	// Named returns the SandboxTemplate of a key; nil if there is none.
	Named(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxTemplate, error)
}

// eventWriter writes events beside tenants' objects; *events.Queue does it in its own time.
type eventWriter interface {
	Write(ctx context.Context, key export.Key, event *corev1.Event, now time.Time)
}

// request names a tenant's object: the unit of work of a kind's controller.
type request = export.Key

// reconciler brings the placements of one kind in line with tenants' objects.
type reconciler struct {
	kind     scope.Kind
	settings func() scope.Settings
	tenants  tenantObjects
	// templates reads tenants' SandboxTemplates.
	templates SandboxTemplates
	runtime   runtimeCluster
	capacity  *capacity
	members   *members.Members
	// sandboxes are told of each status that is written of one.
	sandboxes *Sandboxes
	patched   *patchedBases
	// deliveries are those of variables to pods.
	deliveries *deliveries
	events     eventWriter
	rollouts   rollouts
	// wake has an instance reconciled.
	wake func(request)
	// parts are the instances of a Template, of which compound instances of this kind are made, and false while it has none
	// that are followed; partChanged has the compound instance looked at whose part an instance of this kind is.
	parts       func(template string) (compound.Parts, bool)
	partChanged func(request)
	// builtIn are the objects of a built-in kind, of which compound instances have parts, too, and false while nobody follows
	// them.
	builtIn func(kind string) (compound.Parts, bool)
	// corrections are those of parts of compound instances.
	corrections *corrections
	// developed is told of each DevSession of a group, by their keys, after a look at the group; nil for nobody.
	developed func(group, session request)
	// words are the last words of instances that fail.
	words    *lru.Cache[types.UID, spoken]
	replicas *serving.Replicas
	// now is the time to judge by: no clock that is ahead makes an instance unused, or ends its time.
	now func() time.Time
}

// maxWords bounds the instances whose last words are remembered; those of others are read again.
const maxWords = 4096

func newWords() *lru.Cache[types.UID, spoken] {
	words, _ := lru.New[types.UID, spoken](maxWords) // fails only for a size below one
	return words
}

// Reconcile handles one tenant's object.
//
// The object is read from kcp itself, and not from a watch's cache. A cache that lists all workspaces
// at once reads them through the schema of any one of them, and goes on with that schema for as long
// as the watch lasts: a tenant's value of a new field never came, and the status said that it had
// (ADR 2). In its own workspace an object is read as its tenant reads it.
func (r *reconciler) Reconcile(ctx context.Context, req request) (result reconcile.Result, err error) {
	if ctx.Err() != nil {
		return result, nil //nolint:nilerr // the kind is being stopped; its queue is only drained
	}
	result, err = r.reconcile(ctx, req)
	if errors.Is(err, errChanged) {
		result, err = reconcile.Result{RequeueAfter: changedAgain}, nil
	}
	countReconcile(r.kind, err)
	return result, err
}

func (r *reconciler) reconcile(ctx context.Context, req request) (result reconcile.Result, err error) {
	placements, err := r.placementsOf(ctx, req)
	if err != nil {
		return result, err
	}
	if !r.tenants.Known(req) && len(placements) == 0 {
		// One that waited for a place, or for a member, may have gone, and the next in line comes up.
		r.members.Leave(req)
		r.members.ForgetResizes(req)
		r.capacity.freed(req.Cluster)
		return result, nil // gone, and nothing of it is left
	}
	asked := time.Now()
	live, err := r.live(ctx, req)
	switch {
	case export.IsGone(err):
		r.members.Leave(req)
		r.members.ForgetResizes(req)
		r.capacity.lost(r.kind.Template, req)
		return result, r.removeFormer(ctx, placements, nil)
	case err != nil:
		return result, err
	}
	obj := live.object
	if len(placements) == 0 {
		claimStepSeconds.WithLabelValues("read").Observe(time.Since(asked).Seconds())
	}
	// All that follows reads it from the scope.
	status, err := outcome.ReadStatus(obj)
	if err != nil {
		return result, err
	}
	if err := r.removeFormer(ctx, placements, &found{obj, status}); err != nil {
		return result, err
	}
	if r.settings().Compound.Has(obj) {
		return r.compound(ctx, req, live, status)
	}
	s, err := r.scopeOf(ctx, req, found{obj, status}, placements)
	if err != nil {
		return result, err
	}
	if obj.GetDeletionTimestamp() != nil {
		return r.finalize(ctx, req, s)
	}
	if result, err = r.converge(ctx, req, s.Converted(live.from)); err == nil {
		result.RequeueAfter = outcome.Sooner(result.RequeueAfter, live.again)
	}
	return result, err
}

// converge makes the placement as the object says and reports how the instance is. Each phase returns its
// result, and each takes what it needs of the earlier ones' results.
func (r *reconciler) converge(ctx context.Context, req request, s *scope.Scope) (reconcile.Result, error) {
	// First of all: what comes after it may write a status by which nobody knows any more what there was.
	if err := r.placementLost(ctx, s); err != nil {
		return r.tellLoss(ctx, req, s, inuse.Record{}, err)
	}
	start, served, err := r.start(ctx, req, s)
	var unstarted *outcome.StartError
	switch {
	case errors.As(err, &unstarted):
		_, reporting := r.report(ctx, req, s, outcome.Outcome{Placing: unstarted})
		return reconcile.Result{RequeueAfter: unstarted.Again}, reporting
	case err != nil, served:
		return reconcile.Result{}, err
	}
	if err := r.admit(s); err != nil {
		_, reporting := r.report(ctx, req, s, outcome.Outcome{Placing: err, Start: startWithoutSets(s)})
		return reconcile.Result{}, reporting
	}
	if start != nil {
		claimsTotal.WithLabelValues(start.Type, start.Reason).Inc()
	}
	if s, err = r.protect(ctx, req, s); err != nil {
		return reconcile.Result{}, ignoreGone(err)
	}
	if s, err = r.madeFor(ctx, s); err != nil {
		return reconcile.Result{}, err
	}
	o, current := outcome.Outcome{Start: cmp.Or(start, startUntold(s)), Deadline: startDeadline(s)}, (*unstructured.Unstructured)(nil)
	if o.Plan.Used, o.Placing = r.place(ctx, s); o.Placing == nil {
		current, o.Composing = r.look(ctx, s)
	}
	if o.GoesOn() {
		o.Plan, o.Composing = r.schedule(ctx, s, current, o.Plan.Used)
	}
	if o.Plan.Deleted != "" {
		return r.expire(ctx, req, s, o.Plan)
	}
	if o.GoesOn() && o.Plan.Suspended == "" {
		o.Composing = r.ensureBinding(ctx, s)
	}
	if o.GoesOn() {
		if o.Copies, o.Composing = r.copies(ctx, s, current); errors.Is(o.Composing, errChanged) {
			return reconcile.Result{}, o.Composing
		}
	}
	if lost := outcome.LossOf(o.Composing); lost != nil && lost.First {
		return r.tellLoss(ctx, req, s, o.Plan.Used, lost)
	}
	if o.GoesOn() {
		r.keepLogs(ctx, s, current, o.Plan.Decision)
		o.Instance, o.Turn, o.Composing = r.compose(ctx, s, current, o.Plan.Decision, o.Copies)
	}
	if o.GoesOn() {
		countLifecycle(s.Kind(), o.Plan)
	}
	r.tellSessions(req, o.Copies)
	seen, looking := r.observe(ctx, s, o)
	o.Observation = seen
	updating, err := r.report(ctx, req, s, o)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := errors.Join(retried(o.Placing), retried(correctable(o.Composing)), looking); err != nil {
		return reconcile.Result{}, err
	}
	return r.again(o, updating), nil
}

// again is when to look at the instance again although nothing wakes it; updating is after which time the
// rollout asks for that.
func (r *reconciler) again(o outcome.Outcome, updating time.Duration) reconcile.Result {
	again := o.Plan.Again(r.now())
	if o.Now.Before(o.Deadline) {
		again.RequeueAfter = outcome.Sooner(again.RequeueAfter, r.until(o.Deadline))
	}
	again.RequeueAfter = outcome.Sooner(outcome.Sooner(again.RequeueAfter, o.Recheck), updating)
	return again
}

// admit refuses an instance that the provider has no settings for, or no room.
func (r *reconciler) admit(s *scope.Scope) error {
	if s.Infrastructure() == nil {
		return outcome.ErrNotConfigured
	}
	me := candidate{owner: s.Placement().Owner, created: s.Object().GetCreationTimestamp().Time}
	return r.capacity.admit(me, s.Infrastructure().Limits)
}

// look reads the kro instance that there is; nil if there is none. It returns a loss if somebody has
// deleted it.
func (r *reconciler) look(ctx context.Context, s *scope.Scope) (*unstructured.Unstructured, error) {
	current, err := r.runtime.composed(ctx, s)
	if err != nil {
		return nil, err
	}
	return current, r.resourcesLost(ctx, s, current)
}

// scopeOf is the scope of an object whose name has, or had, these placements.
func (r *reconciler) scopeOf(ctx context.Context, req request, obj found, placements []corev1.Namespace) (*scope.Scope, error) {
	settings := r.settings()
	placed, err := r.placementOf(ctx, obj, settings.Pod != nil, req, placements)
	if err != nil {
		return nil, err
	}
	return scope.New(r.kind, settings, obj.object, obj.status, placed), nil
}

// protect puts the finalizer on an object before anything is made for it, so that its deletion waits
// for the placement's. It returns the scope of the protected object.
func (r *reconciler) protect(ctx context.Context, req request, s *scope.Scope) (*scope.Scope, error) {
	obj := s.Object()
	if !controllerutil.ContainsFinalizer(obj, placement.Finalizer) {
		var err error
		if obj, err = r.addFinalizer(ctx, req, obj); err != nil {
			return nil, err
		}
	}
	path := r.tenants.WorkspacePath(ctx, req.Cluster)
	if path == "" && s.Clones() != nil {
		return nil, errPathUnknown
	}
	return s.Protected(obj, path), nil
}

func (r *reconciler) addFinalizer(ctx context.Context, req request, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	changed := obj.DeepCopy()
	controllerutil.AddFinalizer(changed, placement.Finalizer)
	return r.patchMetadata(ctx, req, obj, changed)
}

// patchMetadata writes a change under the resource version that was read: a merge patch
// replaces the whole list of finalizers and would drop one that somebody else just added.
func (r *reconciler) patchMetadata(ctx context.Context, req request, before, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	data, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(after)
	if err != nil {
		return nil, fmt.Errorf("encoding the finalizers: %w", err)
	}
	obj, err := r.tenants.Patch(ctx, req, data)
	if err != nil {
		return nil, fmt.Errorf("writing the finalizers: %w", err)
	}
	return obj, nil
}

// report says how the instance is: in its status, to the rollout and with an event. It returns after
// which time the rollout asks for another look. After an error that mends itself, an instance that
// was placed keeps its status: its sandbox runs on, whatever the API server answers just now.
func (r *reconciler) report(ctx context.Context, req request, s *scope.Scope, o outcome.Outcome) (updating time.Duration, err error) {
	o.Now = r.now()
	status, err := outcome.BuildStatus(s, o)
	if err != nil {
		return 0, err
	}
	old := s.Status()
	if keepStatus(s, old, o) {
		return 0, nil
	}
	if updating, err = r.observeRollout(s, o, status); err != nil {
		return 0, err
	}
	return updating, r.writeStatus(ctx, req, s, o, old, status)
}

// writeStatus writes the status if it says something else than the one that the object has.
func (r *reconciler) writeStatus(ctx context.Context, req request, s *scope.Scope, o outcome.Outcome, old sandbarv1alpha1.InstanceStatus, status map[string]any) error {
	before, _ := s.Object().Object["status"].(map[string]any)
	if outcome.SaysTheSame(before, status) {
		return nil
	}
	changed := s.Object().DeepCopy()
	changed.Object["status"] = status
	// Under the version that was read: a cache that is behind would give a condition that
	// changed a moment ago the time of a second change.
	data, err := client.MergeFromWithOptions(s.Object(), client.MergeFromWithOptimisticLock{}).Data(changed)
	if err != nil {
		return fmt.Errorf("encoding the status: %w", err)
	}
	if _, err := r.tenants.Patch(ctx, req, data, "status"); err != nil {
		return ignoreGone(fmt.Errorf("writing the status: %w", err))
	}
	written, err := outcome.ReadStatus(changed)
	if err != nil {
		return err
	}
	log.FromContext(ctx).V(1).Info("wrote the status", "phase", written.Phase)
	logGraphFailure(ctx, o, old, written)
	r.sandboxes.seen(req.Cluster, s.Object())
	r.partChanged(req)
	r.tellStart(ctx, req, s, old, written)
	r.tellPhase(ctx, req, s, old, written)
	return nil
}

// logGraphFailure logs kro's own words about a graph that cannot be composed, which its tenant is not
// told, when that begins.
func logGraphFailure(ctx context.Context, o outcome.Outcome, old, written sandbarv1alpha1.InstanceStatus) {
	failed := func(status sandbarv1alpha1.InstanceStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, sandbarv1alpha1.InstanceComposed)
		return c != nil && c.Reason == outcome.ReasonGraphFailed
	}
	if failed(written) && !failed(old) && o.Instance != nil {
		log.FromContext(ctx).Info("kro cannot compose an instance", "cause", revision.Plain(outcome.GraphMessage(o.Instance)))
	}
}

func keepStatus(s *scope.Scope, old sandbarv1alpha1.InstanceStatus, o outcome.Outcome) bool {
	placed, composed := outcome.PlacedVerdict(o), outcome.Verdict{}
	if placed.OK {
		composed = outcome.ComposedVerdict(s, placed, o)
	}
	mendsItself := placed.Reason == outcome.ReasonRuntimeError || composed.Reason == outcome.ReasonRuntimeError
	return mendsItself && meta.IsStatusConditionTrue(old.Conditions, sandbarv1alpha1.InstancePlaced)
}

// retried drops the errors that an event or the operator mends and a retry does not.
func retried(err error) error {
	var configuration *outcome.ConfigurationError
	var lost *outcome.LossError
	if errors.Is(err, outcome.ErrTerminating) || errors.As(err, &configuration) || errors.As(err, &lost) {
		return nil
	}
	return err
}

// correctable drops the errors of composing that another spec mends and a retry does not. Of what makes
// the placement nothing is the tenant's: that is tried again, as the status says.
func correctable(err error) error {
	var refused *outcome.RefusalError
	if errors.As(err, &refused) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// errChanged means that a tenant's object was written by somebody else between a reconcile's look at it
// and its own write.
var errChanged = errors.New("the instance has changed meanwhile")

// changedAgain is when to look at such an object again. Its event does not do: a write that changes
// nothing which matters here leads to no look (export.Objects).
const changedAgain = 100 * time.Millisecond

// ignoreGone drops what a tenant's object that is gone answers: its own event follows. One that has
// changed is errChanged. The runtime cluster's answers are tried again as errors: its quota says
// Conflict, too, and a kind that is not served yet NotFound.
func ignoreGone(err error) error {
	switch {
	case export.IsGone(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}
