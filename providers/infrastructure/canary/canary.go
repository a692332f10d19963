// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/pause"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/runtimecluster"
)

const (
	fieldOwner = "sandbar-controllers"
	// DefaultInterval is the time from the end of a beat to the next one.
	DefaultInterval = 10 * time.Second
	// DefaultPatience is how long kro may take to bring a beat back.
	DefaultPatience = 30 * time.Second
)

// Options are the settings of the canary.
type Options struct {
	// Interval is the time from the end of a beat to the next one. Defaults to DefaultInterval.
	Interval time.Duration
	// Patience is how long kro may take to bring a beat back. Defaults to DefaultPatience.
	Patience time.Duration
}

// State is what the canary has found.
type State struct {
	// Known is false before the first beat has come back or has not.
	Known bool
	// Composing is whether the last beat came back.
	Composing bool
	// Last is when a beat last came back; zero if none ever has.
	Last time.Time
	// Since is since when beats do not come back, while they do not.
	Since time.Time
	// Took is how long the last beat took that came back.
	Took time.Duration
}

// errSilent means that a beat did not come back in time.
var errSilent = errors.New("kro did not compose in time")

// Canary beats. It implements manager.Runnable.
type Canary struct {
	opts    Options
	log     logr.Logger
	now     func() time.Time
	changed chan event.GenericEvent
	// beat writes a beat and waits for it; a variable for tests. Its error is errSilent if kro is to
	// blame, and another if the runtime cluster is.
	beat func(ctx context.Context, text string) error

	mu    sync.Mutex
	state State
}

// Register adds a Canary to the manager. The runtime cluster must be part of the same manager.
func Register(mgr ctrl.Manager, runtime *runtimecluster.Cluster, opts Options) (*Canary, error) {
	objects, err := dynamic.NewForConfig(runtime.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("connecting to the runtime cluster: %w", err)
	}
	k := &kro{
		client: runtime.GetClient(), names: runtime.Names,
		objects: objects.Resource(versionOf(runtime.Names).WithResource(resource)).Namespace(runtime.Names.SystemNamespace()),
	}
	c := newCanary(opts, mgr.GetLogger().WithName("canary"), k.beat)
	if err := mgr.Add(c); err != nil {
		return nil, fmt.Errorf("adding the canary: %w", err)
	}
	return c, registerMetrics(c)
}

func newCanary(opts Options, log logr.Logger, beat func(context.Context, string) error) *Canary {
	if opts.Interval == 0 {
		opts.Interval = DefaultInterval
	}
	if opts.Patience == 0 {
		opts.Patience = DefaultPatience
	}
	return &Canary{opts: opts, log: log, now: time.Now, changed: make(chan event.GenericEvent), beat: beat}
}

// State returns what the canary has found last.
func (c *Canary) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Changed has an event when kro begins or ceases to compose.
func (c *Canary) Changed() <-chan event.GenericEvent { return c.changed }

// Start beats until the context ends.
func (c *Canary) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if c.round(ctx) {
			provider := &sandbarv1alpha1.InfrastructureProvider{}
			provider.Name = sandbarv1alpha1.InfrastructureProviderName
			select {
			case c.changed <- event.GenericEvent{Object: provider}:
			case <-ctx.Done():
				return nil
			}
		}
		_ = pause.For(ctx, c.opts.Interval)
	}
	return nil
}

// round beats once and reports whether that is news.
func (c *Canary) round(ctx context.Context) (news bool) {
	start := c.now()
	bounded, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
	err := c.beat(bounded, start.UTC().Format(time.RFC3339Nano))
	if ctx.Err() != nil {
		return false // we are told to end, which says nothing about kro
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.state
	switch {
	case err == nil:
		c.state = State{Known: true, Composing: true, Last: c.now(), Took: c.now().Sub(start)}
	case errors.Is(err, errSilent):
		c.state.Known, c.state.Composing = true, false
		if c.state.Since.IsZero() {
			c.state.Since = start
		}
	default:
		// The condition RuntimeReachable says it; of kro it says nothing.
		c.log.V(1).Info("could not beat", "error", err.Error())
		return false
	}
	if news = before.Known != c.state.Known || before.Composing != c.state.Composing; news {
		c.log.Info("kro", "composing", c.state.Composing, "last", c.state.Last)
	}
	return news
}

// kro is the kro of the runtime cluster.
type kro struct {
	client client.Client
	// names are those of what the provider has on the runtime cluster.
	names   placement.Names
	objects dynamic.ResourceInterface
}

// beat writes a beat and waits until kro has brought it, or a later one, back.
func (k *kro) beat(ctx context.Context, text string) error {
	if err := k.ensureGraph(ctx); err != nil {
		return err
	}
	written, err := k.write(ctx, text)
	if err != nil {
		return err
	}
	watch, err := k.objects.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", Name).String(), ResourceVersion: written.GetResourceVersion(),
	})
	if err != nil {
		return fmt.Errorf("waiting for a beat: %w", err)
	}
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if obj, ok := e.Object.(*unstructured.Unstructured); ok && cameBack(obj) {
			return nil
		}
	}
	if ctx.Err() == nil {
		return errors.New("the watch for a beat ended")
	}
	return k.blame()
}

// write writes a beat, as soon as kro has made the kind of the graph.
func (k *kro) write(ctx context.Context, text string) (written *unstructured.Unstructured, err error) {
	options := metav1.ApplyOptions{FieldManager: fieldOwner, Force: true}
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		written, err = k.objects.Apply(ctx, Name, instance(k.names, text), options)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() != nil {
		return nil, k.unwritten(err)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a beat: %w", err)
	}
	return written, nil
}

// blame says whose fault it is that a beat did not come back: a runtime cluster that hangs answers
// nothing either.
func (k *kro) blame() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastLook)
	defer cancel()
	obj, err := k.objects.Get(ctx, Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err): // or its kind is
		return errSilent
	case err != nil:
		return fmt.Errorf("looking for a beat: %w", err)
	case cameBack(obj):
		return nil
	}
	return errSilent
}

// unwritten says whose fault it is that a beat could not be written in time: kro's, if it has not
// made the kind.
func (k *kro) unwritten(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastLook)
	defer cancel()
	if _, err := k.objects.List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		return errSilent
	}
	return fmt.Errorf("writing a beat: %w", cause)
}

// lastLook bounds the look that tells kro and the runtime cluster apart.
const lastLook = 10 * time.Second

// cameBack reports whether the status has the beat that was written last: ours, or that of a process
// that has taken over. It looks at no clock: after one has jumped back, a former beat looks like a
// later one, and a kro that has stopped like one that composes.
func cameBack(obj *unstructured.Unstructured) bool {
	written, _, _ := unstructured.NestedString(obj.Object, "spec", "beat")
	got, _, _ := unstructured.NestedString(obj.Object, "status", "beat")
	return got != "" && got == written
}

// ensureGraph makes the canary's graph. A Sandbar of another version may have another.
func (k *kro) ensureGraph(ctx context.Context) error {
	current, desired := &krov1alpha1.ResourceGraphDefinition{}, graph(k.names)
	name := desired.GetName()
	err := k.client.Get(ctx, types.NamespacedName{Name: name}, current)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("kro is not installed: %w", err)
	case apierrors.IsNotFound(err):
		if err := k.client.Create(ctx, desired, client.FieldOwner(fieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making ResourceGraphDefinition %s: %w", name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading ResourceGraphDefinition %s: %w", name, err)
	case current.Labels[placement.LabelManagedBy] != placement.ManagedBy || current.Labels[placement.LabelProviderName] != k.names.String():
		return fmt.Errorf("ResourceGraphDefinition %s is not the provider's", name)
	}
	if current.Annotations[annotationVersion] == version {
		return nil
	}
	desired.SetResourceVersion(current.ResourceVersion)
	desired.SetFinalizers(current.Finalizers)
	if err := k.client.Update(ctx, desired, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("changing ResourceGraphDefinition %s: %w", name, err)
	}
	return nil
}
