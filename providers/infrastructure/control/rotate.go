// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// rotateAgain is when a round is made again in which something could not be written.
	rotateAgain = 10 * time.Second
	// rotateEvery is when a round is made although the keys have not changed: a Secret that was made
	// with keys that were read just before they changed has nothing else that rotates it.
	rotateEvery = 10 * time.Minute
)

// rotation brings the keys as they are now to all placements, one after the other. Its rate keeps the API
// server and the kubelets from having to carry all Secrets of a cluster at once.
type rotation struct {
	placements

	cache   cache.Cache
	limiter *rate.Limiter
	log     logr.Logger
	// changed has an element while there is a change of the keys to look at.
	changed chan struct{}
}

func newRotation(p placements, c cache.Cache, opts Options, log logr.Logger) *rotation {
	return &rotation{
		placements: p, cache: c, log: log, changed: make(chan struct{}, 1),
		limiter: rate.NewLimiter(rate.Limit(opts.RotationsPerSecond), 1),
	}
}

// Start implements manager.Runnable: it looks at all placements at once, and again after each change of
// the keys.
func (r *rotation) Start(ctx context.Context) error {
	informer, err := r.cache.GetInformer(ctx, &corev1.Secret{})
	if err != nil {
		return fmt.Errorf("watching the keys of control tokens: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.FilteringResourceEventHandler{
		FilterFunc: r.isKeys,
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { r.signal() }, UpdateFunc: func(any, any) { r.signal() }, DeleteFunc: func(any) { r.signal() },
		},
	})
	if err != nil {
		return fmt.Errorf("watching the keys of control tokens: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()
	r.follow(ctx)
	return nil
}

// follow makes rounds until the context ends: now, when the keys change, and from time to time.
func (r *rotation) follow(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-next.C:
		}
		next.Reset(rotateEvery)
		if err := r.round(ctx); err != nil && ctx.Err() == nil {
			r.log.Error(err, "not all placements have the control token of the newest key; they are tried again")
			next.Reset(rotateAgain)
		}
	}
}

func (r *rotation) isKeys(obj any) bool {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	secret, ok := obj.(*corev1.Secret)
	return ok && secret.Namespace == r.writer.Names.SystemNamespace() && secret.Name == placement.ControlKeysSecret
}

func (r *rotation) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// round looks at every placement once.
func (r *rotation) round(ctx context.Context) error {
	k, err := r.look(ctx)
	if err != nil || len(k) == 0 {
		return err
	}
	var list corev1.NamespaceList
	if err := r.writer.Client.List(ctx, &list, client.HasLabels{placement.LabelInstanceUID}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the placements: %w", err)
	}
	rotated := 0
	var failed error
	for i := range list.Items {
		wrote, err := r.rotate(ctx, &list.Items[i], k)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = err
			writes.WithLabelValues(writeFailed).Inc()
		}
		if wrote {
			rotated++
		}
	}
	if rotated > 0 {
		r.log.Info("control tokens rotated", "key", k[0].name, "placements", rotated)
	}
	return failed
}

// look reads the keys, and says what is wrong with them.
func (r *rotation) look(ctx context.Context) (keys, error) {
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: r.writer.Names.SystemNamespace(), Name: placement.ControlKeysSecret}
	err := r.writer.Client.Get(ctx, name, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	k, bad := parseKeys(secret.Data)
	if len(bad) > 0 {
		r.log.Info("entries that are no keys of control tokens are left out: a key has 32 bytes", "secret", name.String(), "entries", bad)
	}
	if len(k) == 0 {
		r.log.Info("there is no key of control tokens: run sandbar-provider init. Tokens stay as they are; new ones are made up, and cannot be made again", "secret", name.String())
	}
	return k, nil
}

// rotate gives one placement the token of the newest key, if it has another one.
func (r *rotation) rotate(ctx context.Context, ns *corev1.Namespace, k keys) (wrote bool, err error) {
	id, ours, err := r.ours(ctx, ns)
	if err != nil || !ours {
		return false, err
	}
	current := &corev1.Secret{}
	name := types.NamespacedName{Namespace: ns.Name, Name: placement.ControlSecret}
	if err := r.writer.Client.Get(ctx, name, current); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	want := desired(k, id)
	if judge(current, k, id, want) != outdated {
		return false, nil
	}
	if err := r.limiter.Wait(ctx); err != nil {
		return false, fmt.Errorf("waiting to rotate Secret %s: %w", name, err)
	}
	err = r.writer.patch(ctx, current, metaOf(ns), &want, writeRotated)
	if apierrors.IsNotFound(err) {
		return false, nil // on its way out, or about to be made with the newest key
	}
	return err == nil, err
}
