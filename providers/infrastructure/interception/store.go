// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package interception

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
)

var (
	// ErrNotGranted means that the controllers have no right to put proxies in front of Services of a namespace.
	ErrNotGranted = errors.New("the controllers may not put proxies in front of its Services")
	// ErrFull means that the routes of a namespace have no room for another one.
	ErrFull = errors.New("the proxies of the namespace have no room for the rules of another route")
	// ErrShare means that the routes of one workspace have no room for another one there.
	ErrShare = fmt.Errorf("the rules of the routes of this workspace are more than the %d bytes that it may have for the Services of one namespace", intercept.MaxShareBytes)
)

// Asked is what a SandboxRoute asks of the proxies of a Service, and the state of these. It must not be changed.
type Asked struct {
	Service types.NamespacedName
	Intent  *intercept.Intent
	State   intercept.State
}

// Store is what SandboxRoutes ask of proxies. It is on the runtime cluster: a merge patch of a key for each route and Service,
// so that no route writes over another one.
type Store struct {
	// Reader reads the runtime cluster, live.
	Reader client.Reader
	Writer client.Writer
	// watch follows what is asked for; nil for a Store that reads all of it live.
	watch *watch
}

// Of returns what a SandboxRoute has asked for, also earlier ones of its name. It is what the controllers follow, and may be some moments old:
// a change that it does not have yet has the route looked at again.
func (s Store) Of(ctx context.Context, route export.Key) ([]Asked, error) {
	if s.watch == nil {
		return s.OfLive(ctx, route)
	}
	all, known := s.watch.items()
	if known == follow.Looking {
		return s.OfLive(ctx, route)
	}
	var found []Asked
	for _, one := range all { // none, where init of this version has not been run
		found = append(found, of(route, one.Namespace, one.routes)...)
	}
	return found, nil
}

// OfLive is Of as it is now: one list of the runtime cluster. It is for what cannot be made good again.
func (s Store) OfLive(ctx context.Context, route export.Key) ([]Asked, error) {
	list := &corev1.ConfigMapList{}
	// The right is to ConfigMaps of this name: a list whose field selector has it is one of that name.
	err := s.Reader.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: intercept.RoutesConfigMap})
	if apierrors.IsForbidden(err) {
		return nil, nil // init of this version has not been run: nothing can be asked for
	}
	if err != nil {
		return nil, fmt.Errorf("reading what routes ask of proxies: %w", err)
	}
	var found []Asked
	for i := range list.Items {
		if s.watch.isGranted(&list.Items[i]) {
			found = append(found, of(route, list.Items[i].Namespace, intercept.ReadRoutes(list.Items[i].Data))...)
		}
	}
	return found, nil
}

// of is what a SandboxRoute has asked for in a namespace.
func of(route export.Key, namespace string, all map[string]*intercept.Routes) (found []Asked) {
	for service, routes := range all {
		for _, intent := range routes.Intents {
			if keyOf(intent) == route {
				found = append(found, Asked{types.NamespacedName{Namespace: namespace, Name: service}, intent, routes.State})
			}
		}
	}
	return found
}

// Ask writes what a route asks of the proxies of a Service. Errors: ErrNotGranted, ErrFull, ErrShare, and those that a retry mends.
func (s Store) Ask(ctx context.Context, service types.NamespacedName, intent *intercept.Intent) error {
	key := intercept.IntentKey(service.Name, intent.UID)
	config := &corev1.ConfigMap{}
	err := s.Reader.Get(ctx, types.NamespacedName{Namespace: service.Namespace, Name: intercept.RoutesConfigMap}, config)
	switch {
	case err != nil:
		err = fmt.Errorf("reading what routes ask of proxies: %w", err)
	case !s.watch.isGranted(config):
		return fmt.Errorf("namespace %s: %w", service.Namespace, ErrNotGranted)
	case intent.Leaving && config.Data[key] == "":
		return nil // it is gone, and what was read of it is old
	default:
		err = hasRoom(config.Data, key, intent)
	}
	if err == nil {
		// Also what it says already: that it may be written tells a namespace with the right from one without.
		err = patchData(ctx, s.Writer, service.Namespace, intercept.RoutesConfigMap, map[string]any{key: intent.Encode()})
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return fmt.Errorf("namespace %s: %w", service.Namespace, ErrNotGranted)
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return fmt.Errorf("namespace %s: %w", service.Namespace, ErrFull)
	}
	return err
}

// hasRoom refuses an intent for which there is not room. One that takes no more than it did is never refused.
//
// The attack: a tenant's routes fill the ConfigMap, and the controllers cannot note any more what they do with the Services of others,
// or the routes of others have no room.
func hasRoom(data map[string]string, key string, intent *intercept.Intent) error {
	more := len(key) + len(intent.Encode())
	if before := data[key]; before != "" && len(key)+len(before) >= more {
		return nil
	}
	all, share := intercept.Sizes(data, key, intent.Route.Cluster)
	switch {
	case share+more > intercept.MaxShareBytes:
		return ErrShare
	case all+more > intercept.MaxRoutesBytes:
		return fmt.Errorf("%w: there are %d bytes for them", ErrFull, intercept.MaxRoutesBytes)
	}
	return nil
}

// keyOf is the SandboxRoute that asks.
func keyOf(i *intercept.Intent) export.Key {
	return export.Key{Cluster: i.Route.Cluster, NamespacedName: types.NamespacedName{Namespace: i.Route.Namespace, Name: i.Route.Name}}
}
