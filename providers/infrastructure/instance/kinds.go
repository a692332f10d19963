// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/conversion"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/podbase"
)

// Kinds runs one runner per exported Template. Its reconciles compare what runs with what
// should run, so that an endpoint or a controller that failed is tried again until it works.
type Kinds struct {
	client     client.Client // of the provider workspace
	exportName string
	config     runnerConfig
	restart    chan event.TypedGenericEvent[*sandbarv1alpha1.Template]
	// baselines has an event while Baselines are to be read again.
	baselines chan event.GenericEvent
	// hasBaselines: the provider workspace serves Baselines.
	hasBaselines atomic.Bool

	started chan struct{} // closed when base is set
	base    context.Context

	// memberKind is the kind whose placements sets keep.
	memberKind string
	sandboxes  *Sandboxes
	groups     *Groups

	mu      sync.RWMutex
	running map[string]*runner
}

// NewKinds returns kinds of which none runs before Register. memberKind is the one whose placements sets keep, and
// claimChanged is told of each SandboxClaim one of whose Sandboxes comes, changes or goes, and groupChanged of each SandboxGroup
// that does, or whose status does.
func NewKinds(memberKind string, claimChanged, groupChanged func(export.Key)) *Kinds {
	k := &Kinds{
		restart:   make(chan event.TypedGenericEvent[*sandbarv1alpha1.Template], pendingRestarts),
		baselines: make(chan event.GenericEvent, 1),
		started:   make(chan struct{}), running: map[string]*runner{}, memberKind: memberKind,
	}
	k.sandboxes = &Sandboxes{runner: k.podRunner, changed: claimChanged}
	k.groups = &Groups{runner: k.groupRunner, changed: groupChanged}
	return k
}

// BaselinesChanged has the kinds of copies read the Baselines again. Before it is called they read none: a watch of a kind that
// the provider workspace does not serve, as after an upgrade until init is run again, would end the process.
func (k *Kinds) BaselinesChanged() {
	k.hasBaselines.Store(true)
	select {
	case k.baselines <- event.GenericEvent{Object: &sandbarv1alpha1.Baseline{}}:
	default: // another one waits there
	}
}

// Sandboxes are the objects of the kind whose placements sets keep.
func (k *Kinds) Sandboxes() *Sandboxes { return k.sandboxes }

// MemberKind implements members.Kinds.
func (k *Kinds) MemberKind() (members.Kind, bool) {
	r := k.podRunner()
	if r == nil {
		return nil, false
	}
	return memberKind{r.instances}, true
}

// Start implements manager.Runnable: it keeps the runners as long as this process leads, and
// ends when they have ended.
func (k *Kinds) Start(ctx context.Context) error {
	k.base = ctx
	namespaces, err := k.config.runtime.GetCache().GetInformer(ctx, &corev1.Namespace{})
	if err == nil {
		err = k.config.capacity.watch(ctx, namespaces, members.ProviderOf(k.client))
	}
	if err != nil {
		return err
	}
	close(k.started)
	<-ctx.Done()
	k.mu.Lock()
	running := maps.Clone(k.running)
	clear(k.running) // no other comes: base is done
	k.mu.Unlock()
	for _, r := range running { // without the lock: a reconcile that is waited for may ask for the instances of another kind
		r.close(ctx)
	}
	return nil
}

// Reconcile starts, adjusts or stops the runner of one Template.
func (k *Kinds) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	select {
	case <-k.started:
	case <-ctx.Done():
		return reconcile.Result{}, nil
	}
	template := &sandbarv1alpha1.Template{}
	if err := k.client.Get(ctx, req.NamespacedName, template); apierrors.IsNotFound(err) {
		k.stop(ctx, req.Name)
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the Template: %w", err)
	}
	s, err := k.settingsOf(ctx, template)
	if err != nil {
		return reconcile.Result{}, err
	}
	// Without a slice nobody has bound the export yet.
	endpoints, err := export.ReadEndpoints(ctx, k.client, k.exportName)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	r, fresh, err := k.ensure(ctx, template, s)
	if err != nil || r == nil {
		return reconcile.Result{}, err
	}
	r.configure(s)
	err = r.Objects.Follow(endpoints.URLs)
	if fresh {
		k.partsFollowed(req.Name)
	}
	if err != nil || !fresh {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.wakePlaced(ctx)
}

// wake has the runner of a Template look at an instance. Of a Template that has none yet, all are
// looked at when it starts.
func (k *Kinds) wake(template string, req request, mayWait bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if r := k.running[template]; r != nil {
		r.Wake(req, mayWait)
	}
}

// podRunner is the runner of the kind whose placements sets keep; nil if there is none.
func (k *Kinds) podRunner() *runner {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.running {
		if r.kind.GVK.Kind == k.memberKind && r.settings.Load().Pod != nil {
			return r
		}
	}
	return nil
}

// TemplateChanged implements sandboxtemplate.Reader. It has the instances looked at that stand beside a SandboxTemplate which has come, gone or was made
// again: they may refer to it.
func (k *Kinds) TemplateChanged(template export.Key) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.running {
		if r.settings.Load().Pod == nil {
			continue
		}
		r.Objects.InWorkspace(template.Cluster, func(obj metav1.Object) {
			if req, ok := export.KeyOf(obj); ok && req.Namespace == template.Namespace {
				r.Wake(req, true)
			}
		})
	}
}

// ensure returns the Template's runner, started if need be (fresh), or nil while nothing is exported.
// A runner goes on although its Template is no longer accepted or is being deleted: instances
// that exist need their controller until the Template is gone.
func (k *Kinds) ensure(ctx context.Context, template *sandbarv1alpha1.Template, s scope.Settings) (r *runner, fresh bool, err error) {
	wanted, exported := kindOf(template, k.config.names)
	k.mu.RLock()
	r = k.running[template.Name]
	k.mu.RUnlock()
	if r != nil && r.Ended() {
		kindRestartsTotal.WithLabelValues(template.Name).Inc()
		k.stop(ctx, template.Name)
		r = nil
	}
	if r != nil && (!exported || r.kind == wanted) {
		return r, false, nil
	}
	k.stop(ctx, template.Name)
	if !exported {
		return nil, false, nil
	}
	r, err = startRunner(k.base, k.config, wanted, s)
	if err != nil {
		return nil, false, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.base.Err() != nil { // Start has closed the others already
		r.close(ctx)
		return nil, false, nil
	}
	k.running[template.Name] = r
	k.config.log.Info("following a kind", "template", template.Name, "kind", wanted.GVK.Kind)
	return r, true, nil
}

func (k *Kinds) stop(ctx context.Context, template string) {
	k.mu.Lock()
	r := k.running[template]
	delete(k.running, template)
	k.mu.Unlock()
	if r != nil {
		r.close(ctx)
		k.config.log.Info("stopped following a kind", "template", template, "kind", r.kind.GVK.Kind)
	}
}

// failed makes a Template be reconciled whose runner ended by itself.
func (k *Kinds) failed(template string) {
	t := &sandbarv1alpha1.Template{}
	t.Name = template
	select {
	case k.restart <- event.TypedGenericEvent[*sandbarv1alpha1.Template]{Object: t}:
	case <-k.base.Done():
	}
}

// kindOf tells which kind a Template has exported, if any.
func kindOf(template *sandbarv1alpha1.Template, names placement.Names) (scope.Kind, bool) {
	status := template.Status
	exported := status.SchemaName != "" || meta.IsStatusConditionTrue(status.Conditions, sandbarv1alpha1.TemplateExported)
	gvk := schema.GroupVersionKind{Group: status.Group, Version: status.Version, Kind: status.Kind}
	complete := gvk.Group != "" && gvk.Version != "" && gvk.Kind != "" && status.Resource != ""
	kind := scope.Kind{Template: template.Name, Kind: export.Kind{GVK: gvk, Resource: status.Resource}}
	if names != (placement.Names{}) {
		kind.Group = names.Group()
	}
	return kind, exported && complete
}

func (k *Kinds) settingsOf(ctx context.Context, template *sandbarv1alpha1.Template) (scope.Settings, error) {
	s := scope.Settings{
		Provider:  logicalcluster.From(template).String(),
		Names:     k.config.names,
		DataPlane: *contract.InForce(template),
		// A Secret in every placement would be one object more for each, used or not.
		WantsPassword: bytes.Contains(template.Spec.Graph.Raw, []byte(placement.PasswordSecret)) || contract.GivesPassword(&template.Spec.DataPlane),
		RunsPods:      contract.RunsPods(template.Spec.Graph.Raw),
		Choice:        template.Spec.ImageChoice,
	}
	var err error
	if s.Conversions, err = conversion.Compile(template.Status.Conversions); err != nil {
		return s, fmt.Errorf("compiling the conversions of the Template: %w", err)
	}
	if fields := template.Spec.PodTemplate; fields != nil {
		var list sandbarv1alpha1.TemplateList
		if err := k.client.List(ctx, &list); err != nil {
			return s, fmt.Errorf("listing the Templates: %w", err)
		}
		s.Pod = &scope.PodWords{Fields: *fields, Offers: podbase.OffersOf(list.Items)}
	}
	if fields := template.Spec.Clones; fields != nil {
		if s.Clones, err = k.cloneWords(ctx, *fields); err != nil {
			return s, err
		}
	}
	if fields := template.Spec.Compound; fields != nil {
		if s.Compound, err = k.compoundWords(ctx, *fields); err != nil {
			return s, err
		}
	}
	infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
	err = k.client.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, infrastructure)
	if err == nil {
		s.Infrastructure, err = platform.Settings(ctx, k.config.runtime.GetClient(), k.config.names, infrastructure)
		s.Revisions = revisionsOf(template, infrastructure)
	}
	if err == nil {
		return s, nil
	} else if !apierrors.IsNotFound(err) {
		return s, fmt.Errorf("reading the InfrastructureProvider: %w", err)
	}
	return s, nil
}

// cloneWords are what the operator says of copies. The status of a Baseline says nothing about them, and changes often.
func (k *Kinds) cloneWords(ctx context.Context, fields sandbarv1alpha1.CloneFields) (*scope.CloneWords, error) {
	words := &scope.CloneWords{Fields: fields}
	if !k.hasBaselines.Load() {
		return words, nil
	}
	var list sandbarv1alpha1.BaselineList
	if err := k.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the Baselines: %w", err)
	}
	for i := range list.Items {
		b := sandbarv1alpha1.Baseline{Spec: list.Items[i].Spec}
		b.Name, b.DeletionTimestamp = list.Items[i].Name, list.Items[i].DeletionTimestamp
		words.Baselines = append(words.Baselines, b)
	}
	slices.SortFunc(words.Baselines, func(a, b sandbarv1alpha1.Baseline) int { return strings.Compare(a.Name, b.Name) })
	return words, nil
}
