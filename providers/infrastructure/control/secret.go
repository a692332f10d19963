// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// fieldOwner owns what the provider writes on the runtime cluster.
const fieldOwner = client.FieldOwner("sandbar")

// ErrTerminating means that the placement's namespace is being deleted: nothing can be made in it.
var ErrTerminating = errors.New("the placement is being removed")

// state is how a Secret is.
type state int

const (
	// sound: it is as it should be, or was made up at random and stays.
	sound state = iota
	// missing: there is none, or it has no token.
	missing
	// edited: its token is not the one that its key makes.
	edited
	// outdated: its token is an older key's, or it has another former token than it should.
	outdated
)

// content is what a Secret should hold.
type content struct {
	// key is the name of the key that makes the token; empty for one that is made up.
	key  string
	data map[string][]byte
}

// desired is what the Secret of a placement should hold. It depends on the keys and on the placement
// alone, so that whatever became of the Secret, it is made again as it was.
func desired(k keys, id placement.ID) content {
	if len(k) == 0 {
		return content{data: map[string][]byte{placement.ControlTokenKey: []byte(random())}}
	}
	c := content{key: k[0].name, data: map[string][]byte{placement.ControlTokenKey: []byte(k[0].token(id))}}
	if len(k) > 1 {
		c.data[placement.ControlPreviousKey] = []byte(k[1].token(id))
	}
	return c
}

// judge compares a Secret with what it should be; current is nil if there is none.
func judge(current *corev1.Secret, k keys, id placement.ID, want content) state {
	if current == nil || len(current.Data[placement.ControlTokenKey]) == 0 {
		return missing
	}
	by, derived := current.Annotations[placement.AnnotationControlKey]
	if !derived || len(k) == 0 {
		return sound
	}
	has := string(current.Data[placement.ControlTokenKey])
	if made := k.find(by); made != nil && has != made.token(id) {
		return edited
	}
	if by != want.key || has != string(want.data[placement.ControlTokenKey]) ||
		string(current.Data[placement.ControlPreviousKey]) != string(want.data[placement.ControlPreviousKey]) {
		return outdated
	}
	return sound
}

// Writer makes and mends the control Secrets of placements.
type Writer struct {
	// Client reads from the runtime cluster's cache and writes; Live reads from its API server.
	Client client.Client
	Live   client.Reader
	// Names say where the keys are.
	Names placement.Names
}

// keys reads the provider's keys.
func (w Writer) keys(ctx context.Context) (keys, error) {
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: w.Names.SystemNamespace(), Name: placement.ControlKeysSecret}
	if err := w.Client.Get(ctx, name, secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	parsed, _ := parseKeys(secret.Data)
	return parsed, nil
}

// Ensure makes the Secret of a placement, with the metadata that is given, if there is none, and mends
// one that was edited. One that is as an older key makes it stays: it is rotated in its turn.
func (w Writer) Ensure(ctx context.Context, meta metav1.ObjectMeta, id placement.ID) error {
	k, err := w.keys(ctx)
	if err != nil {
		return err
	}
	want, current := desired(k, id), &corev1.Secret{}
	err = w.Client.Get(ctx, types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}, current)
	if apierrors.IsNotFound(err) {
		var made bool
		if made, err = w.create(ctx, meta, want); made || err != nil {
			return err
		}
		// The cache sees labelled Secrets only, and it may lag: ask for what there is.
		err = w.Live.Get(ctx, types.NamespacedName{Namespace: meta.Namespace, Name: meta.Name}, current)
	}
	if err != nil {
		return fmt.Errorf("reading Secret %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	switch judge(current, k, id, want) {
	case missing, edited:
		return w.patch(ctx, current, meta, &want, writeRepaired)
	case sound, outdated:
	}
	return w.patch(ctx, current, meta, nil, writeRepaired)
}

// create reports false, without an error, if there is a Secret of that name.
func (w Writer) create(ctx context.Context, meta metav1.ObjectMeta, want content) (made bool, err error) {
	secret := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: *meta.DeepCopy(), Type: corev1.SecretTypeOpaque, Data: want.data,
	}
	secret.Annotations = want.annotate(secret.Annotations)
	err = w.Client.Create(ctx, secret, fieldOwner)
	switch {
	case err == nil:
		writes.WithLabelValues(writeCreated).Inc()
		return true, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, fmt.Errorf("creating Secret %s/%s: %w", meta.Namespace, meta.Name, ErrTerminating)
	case apierrors.IsAlreadyExists(err):
		return false, nil
	}
	return false, fmt.Errorf("creating Secret %s/%s: %w", meta.Namespace, meta.Name, err)
}

// patch gives a Secret its labels and annotations back and, unless want is nil, its content. It writes
// only a difference.
func (w Writer) patch(ctx context.Context, current *corev1.Secret, meta metav1.ObjectMeta, want *content, as string) error {
	changed := current.DeepCopy()
	changed.Labels = labels.Merge(current.Labels, meta.Labels)
	changed.Annotations = labels.Merge(current.Annotations, meta.Annotations)
	if want != nil {
		changed.Annotations = want.annotate(changed.Annotations)
		changed.Data = want.data
	} else if labels.Equals(changed.Labels, current.Labels) && labels.Equals(changed.Annotations, current.Annotations) {
		return nil
	}
	// Under the version that was read: what somebody else has written meanwhile is looked at first.
	if err := w.Client.Patch(ctx, changed, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}), fieldOwner); err != nil {
		return fmt.Errorf("mending Secret %s/%s: %w", meta.Namespace, meta.Name, err)
	}
	if want != nil {
		writes.WithLabelValues(as).Inc()
	}
	return nil
}

// annotate notes which key made the token.
func (c content) annotate(annotations map[string]string) map[string]string {
	merged := labels.Merge(annotations, nil)
	delete(merged, placement.AnnotationControlKey)
	if c.key != "" {
		merged[placement.AnnotationControlKey] = c.key
	}
	return merged
}
