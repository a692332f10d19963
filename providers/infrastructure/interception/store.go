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
)

var (
	// ErrNotGranted means that the controllers have no right to put proxies in front of Services of a namespace.
	ErrNotGranted = errors.New("the controllers may not put proxies in front of its Services")
	// ErrFull means that the routes of a namespace have no room for another one.
	ErrFull = errors.New("the proxies of the namespace have no room for the rules of another route")
)

// Asked is what a SandboxRoute asks of the proxies of a Service, and the state of these.
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
}

// Of returns what a SandboxRoute has asked for, also earlier ones of its name.
func (s Store) Of(ctx context.Context, route export.Key) ([]Asked, error) {
	list := &corev1.ConfigMapList{}
	// The right is to ConfigMaps of this name: a list whose field selector has it is one of that name.
	err := s.Reader.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: intercept.RoutesConfigMap})
	if apierrors.IsForbidden(err) {
		return nil, nil // init of this version has not been run: nothing can be asked for
	}
	if err != nil {
		return nil, fmt.Errorf("reading what routes ask of proxies: %w", err)
	}
	var all []Asked
	for i := range list.Items {
		for service, routes := range intercept.ReadRoutes(list.Items[i].Data) {
			for _, intent := range routes.Intents {
				if keyOf(intent) == route {
					all = append(all, Asked{types.NamespacedName{Namespace: list.Items[i].Namespace, Name: service}, intent, routes.State})
				}
			}
		}
	}
	return all, nil
}

// Ask writes what a route asks of the proxies of a Service. Errors: ErrNotGranted, ErrFull, and those that a retry mends.
func (s Store) Ask(ctx context.Context, service types.NamespacedName, intent *intercept.Intent) error {
	key := intercept.IntentKey(service.Name, intent.UID)
	err := s.makeRoom(ctx, service.Namespace, key, intent)
	if err == nil {
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

// makeRoom refuses an intent for which there is not room. One that takes no more than it did is never refused.
//
// The attack: a tenant's routes fill the ConfigMap, and the controllers cannot note any more what they do with the Services of others.
func (s Store) makeRoom(ctx context.Context, namespace, key string, intent *intercept.Intent) error {
	config := &corev1.ConfigMap{}
	if err := s.Reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: intercept.RoutesConfigMap}, config); err != nil {
		return fmt.Errorf("reading what routes ask of proxies: %w", err)
	}
	all := len(key) + len(intent.Encode())
	if before := config.Data[key]; before != "" && len(key)+len(before) >= all {
		return nil
	}
	for name, text := range config.Data {
		if name != key {
			all += len(name) + len(text)
		}
	}
	if all > intercept.MaxRoutesBytes {
		return fmt.Errorf("%w: there are %d bytes for them", ErrFull, intercept.MaxRoutesBytes)
	}
	return nil
}

// keyOf is the SandboxRoute that asks.
func keyOf(i *intercept.Intent) export.Key {
	return export.Key{Cluster: i.Route.Cluster, NamespacedName: types.NamespacedName{Namespace: i.Route.Namespace, Name: i.Route.Name}}
}
