// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package frozen

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// ErrChanged says that what was read is not what is there any more. Read it again.
var ErrChanged = errors.New("what is frozen has changed meanwhile")

// Store keeps what is frozen in the placements of a runtime cluster.
//
// It reads from the API server, never from a cache: the first write of two controllers that both believe to lead decides, and
// the ID that a tenant was told once never changes.
type Store struct {
	Live   client.Reader
	Client client.Client
	// FieldOwner owns what is written.
	FieldOwner string
}

// Read returns what a placement keeps; nil if it keeps nothing yet.
func (s Store) Read(ctx context.Context, namespace string) (*Frozen, error) {
	stored := &corev1.ConfigMap{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: placement.SnapshotsConfigMap}, stored)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what is frozen: %w", err)
	}
	return read(stored)
}

// Write keeps f, whose ConfigMap has the metadata. It fails with ErrChanged unless f is a new one where there is none, or
// was read from what is there, and with a *clone.RefusedError if f is too large. f is then that which is there.
func (s Store) Write(ctx context.Context, meta metav1.ObjectMeta, f *Frozen) error {
	wanted := &corev1.ConfigMap{ObjectMeta: meta}
	wanted.Name, wanted.ResourceVersion = placement.SnapshotsConfigMap, f.version
	if err := f.write(wanted); err != nil {
		return err
	}
	var err error
	if f.version == "" {
		err = s.Client.Create(ctx, wanted, client.FieldOwner(s.FieldOwner))
	} else {
		err = s.Client.Update(ctx, wanted, client.FieldOwner(s.FieldOwner))
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err) && f.version != "":
		return fmt.Errorf("writing what is frozen: %w", ErrChanged)
	case err != nil:
		return fmt.Errorf("writing what is frozen: %w", err)
	}
	f.version = wanted.ResourceVersion
	return nil
}
