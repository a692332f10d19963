// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/dataplane/preview"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/control"
)

// keyNameForm makes names of keys that sort by time: the latest is used for what is new.
const keyNameForm = "20060102T150405Z"

// ensureKeys makes the Secrets with the provider's own keys, each with one key, if there is none. One
// that is there stays as it is, whatever it holds: which keys there are is the operator's to say.
// Another preview key would end the previews that are open, and another key of control tokens would
// rotate them all.
func (a *applier) ensureKeys(ctx context.Context) error {
	if err := a.ensureKey(ctx, placement.PreviewKeysSecret, preview.KeyBytes); err != nil {
		return err
	}
	return a.ensureKey(ctx, placement.ControlKeysSecret, control.KeyBytes)
}

func (a *applier) ensureKey(ctx context.Context, name string, bytes int) error {
	key := make([]byte, bytes)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	secret := &unstructured.Unstructured{Object: map[string]any{
		"type": string(corev1.SecretTypeOpaque),
		"data": map[string]any{time.Now().UTC().Format(keyNameForm): base64.StdEncoding.EncodeToString(key)},
	}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	secret.SetNamespace(a.system)
	secret.SetName(name)
	secret.SetLabels(map[string]string{placement.LabelManagedBy: placement.ManagedBy})

	options := []client.CreateOption{fieldOwner}
	if a.opts.DryRun {
		options = append(options, client.DryRunAll)
	}
	action := Created
	err := a.client.Create(ctx, secret, options...)
	switch {
	case apierrors.IsAlreadyExists(err):
		action = Unchanged
	case a.opts.DryRun && notThere(err):
		// Its namespace would have been created before it.
	case err != nil:
		return fmt.Errorf("creating Secret %s: %w", qualified(secret), err)
	}
	a.report.add(a.where, "Secret", a.system+"/"+name, action)
	return nil
}
