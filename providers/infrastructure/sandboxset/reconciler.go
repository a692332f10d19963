// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/events"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/members"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
)

const (
	// lookAgain is how soon a set is looked at again that lacks something of which no event tells.
	lookAgain = 10 * time.Second
	// atOnce is how many members of a set are made, or removed, at the same time.
	atOnce = 8
	// statusEvery is how often the status of a set is written at most.
	statusEvery = time.Second
	// maxStatuses bounds the sets of which it is remembered when their status was written; those of others
	// are written at once.
	maxStatuses = 10000
)

// objects reads and writes SandboxSets; *export.Objects does it against kcp.
type objects interface {
	Live(ctx context.Context, key export.Key) (*unstructured.Unstructured, error)
	Patch(ctx context.Context, key export.Key, data []byte, subresources ...string) (*unstructured.Unstructured, error)
	Record(ctx context.Context, key export.Key, event *corev1.Event) error
}

// keeper makes and removes members; *members.Members does.
type keeper interface {
	Configure(set members.Set)
	Forget(set export.Key)
	Revision(ctx context.Context, set members.Set) (members.Made, *podtemplate.Pod, error)
	Of(ctx context.Context, set export.Key) ([]members.Member, error)
	Make(ctx context.Context, set members.Set) error
	Remove(ctx context.Context, member members.Member) error
	Wake(namespace string)
	TakeClaims(set types.UID) members.Claims
	ReturnClaims(set types.UID, claims members.Claims)
}

// reconciler keeps the members of sets.
type reconciler struct {
	objects   objects
	members   keeper
	templates templates
	tries     tries
	events    *events.Recorder
	// references are those of sets to SandboxTemplates, and of a set with a template of its own to the one of
	// its name.
	references export.References
	// limits is how many members one set may have.
	limits func(ctx context.Context) (setReplicas int32, err error)
	now    func() time.Time

	mu sync.Mutex
	// written is when the status of each set was last written, and told which revision its members were last
	// told of.
	written map[export.Key]time.Time
	told    map[types.UID]members.Set
	// inline are the identities of the templates that sets have themselves.
	inline map[export.Key]types.UID
	// patches are those of sets that were accepted last, and accepted the revisions whose pod was tried.
	patches  map[types.UID]scope.PodChange
	accepted *lru.Cache[string, struct{}]
}

func newReconciler(objects objects, kept keeper, templates templates, tries tries) *reconciler {
	accepted, _ := lru.New[string, struct{}](maxAccepted) // fails only for a size below one
	return &reconciler{
		objects: objects, members: kept, templates: templates, tries: tries, events: events.NewRecorder(objects.Record, eventsTotal), now: time.Now,
		written: map[export.Key]time.Time{}, told: map[types.UID]members.Set{}, inline: map[export.Key]types.UID{},
		patches: map[types.UID]scope.PodChange{}, accepted: accepted,
	}
}

// limitsOf reads the limit from the provider workspace and from what the operator has had accepted.
func limitsOf(provider, runtime client.Reader, names placement.Names) func(ctx context.Context) (int32, error) {
	return func(ctx context.Context) (int32, error) {
		infrastructure := &sandbarv1alpha1.InfrastructureProvider{}
		err := provider.Get(ctx, types.NamespacedName{Name: sandbarv1alpha1.InfrastructureProviderName}, infrastructure)
		if apierrors.IsNotFound(err) {
			return 0, members.ErrNoKind
		}
		if err != nil {
			return 0, fmt.Errorf("reading the InfrastructureProvider: %w", err)
		}
		spec, err := platform.Settings(ctx, runtime, names, infrastructure)
		if err != nil {
			return 0, err
		}
		if spec.Limits == nil {
			return sandbarv1alpha1.DefaultSetReplicas, nil
		}
		return *cmp.Or(spec.Limits.SetReplicas, new(int32(sandbarv1alpha1.DefaultSetReplicas))), nil
	}
}

// Reconcile looks at one set.
func (r *reconciler) Reconcile(ctx context.Context, key export.Key) (reconcile.Result, error) {
	set, err := r.read(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	all, err := r.members.Of(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if set == nil || set.DeletionTimestamp != nil {
		r.forget(key)
		return reconcile.Result{}, r.remove(ctx, all)
	}
	// A former set of the name is gone, and its members with it.
	own, former := split(all, set.UID)
	if err := r.remove(ctx, former); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.refers(key, set); err != nil {
		return reconcile.Result{}, err
	}
	says := setOf(key, set)
	o := found{members: own}
	if o.most, err = r.limits(ctx); err != nil {
		o.most = set.Spec.Replicas // nobody knows the limit now, and it must remove nothing
	} else if err = r.conflict(ctx, key, set); err == nil {
		says, o.patchRefused, err = r.revise(ctx, says)
	}
	if o.invalid = invalid(err); o.invalid == nil && err != nil {
		return reconcile.Result{}, err
	}
	if o.invalid != nil {
		says.Revision = set.Status.Revision // nothing is made; what needs no template goes on
	}
	o.patched = says.Differs != placement.Unpatched
	o.wishes = wishesOf(&set.Spec, says.Revision, o.most)
	o.wishes.invalid = o.invalid != nil
	o.wishes.untakeable = o.invalid != nil && says.TemplateRevision == ""
	says.MaxAge = o.wishes.maxAge
	r.configure(says, own)
	o.plan = planFor(o.wishes, own, r.now())
	o.limited, err = r.carryOut(ctx, says, o.plan)
	wait, reporting := r.report(ctx, key, set, o)
	if err := errors.Join(err, reporting); err != nil {
		return reconcile.Result{}, err
	}
	again := sooner(o.plan.again, wait)
	if o.invalid != nil || o.patchRefused != nil || o.limited != nil {
		again = sooner(again, lookAgain)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// read reads a set; nil if there is none.
func (r *reconciler) read(ctx context.Context, key export.Key) (*sandbarv1alpha1.SandboxSet, error) {
	obj, err := r.objects.Live(ctx, key)
	switch {
	case export.IsGone(err):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, fmt.Errorf("reading SandboxSet %s: %w", key.Name, err)
	}
	set := &sandbarv1alpha1.SandboxSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set); err != nil {
		return nil, fmt.Errorf("reading SandboxSet %s: %w", key.Name, err)
	}
	return set, nil
}

// split parts the members of a set from those of a former one of its name.
func split(all []members.Member, set types.UID) (own, former []members.Member) {
	for _, m := range all {
		if m.SetUID == set {
			own = append(own, m)
		} else {
			former = append(former, m)
		}
	}
	return own, former
}

// configure notes what a set says, and has its members looked at when that is another thing.
func (r *reconciler) configure(set members.Set, own []members.Member) {
	r.members.Configure(set)
	r.mu.Lock()
	changed := r.told[set.UID] != set
	r.told[set.UID] = set
	r.mu.Unlock()
	if changed {
		for _, m := range own {
			r.members.Wake(m.Namespace())
		}
	}
}

func (r *reconciler) forget(key export.Key) {
	r.members.Forget(key)
	r.standsFor(key, "", false)
	r.references.Drop(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
	for uid, set := range r.told {
		if set.Key == key {
			delete(r.told, uid)
			delete(r.patches, uid)
		}
	}
}

// carryOut makes and removes members. limited is why no more could be made.
func (r *reconciler) carryOut(ctx context.Context, set members.Set, p plan) (limited *outcome.FullError, err error) {
	if err := r.remove(ctx, p.remove); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for range p.create {
		group.Go(func() error {
			err := r.members.Make(ctx, set)
			var full *outcome.FullError
			if errors.As(err, &full) {
				mu.Lock()
				defer mu.Unlock()
				limited = full
				return nil
			}
			return err
		})
	}
	err = group.Wait() // limited is written by then
	return limited, err
}

func (r *reconciler) remove(ctx context.Context, all []members.Member) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, m := range all {
		group.Go(func() error { return r.members.Remove(ctx, m) })
	}
	return group.Wait()
}

// invalid is why no members can be made, in words for the tenant; nil for any other error.
func invalid(err error) *outcome.RefusalError {
	var refused *outcome.RefusalError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, members.ErrNoKind), errors.Is(err, outcome.ErrNotConfigured):
		return &outcome.RefusalError{Reason: sandbarv1alpha1.TemplateNotChecked, Message: "the operator has not set up the kind Sandbox yet; this goes on by itself"}
	}
	return nil
}
