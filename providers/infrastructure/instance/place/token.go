// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"crypto/rand"
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// secretBytes is the length of what is made up here before its encoding: 256 bits cannot be
// guessed.
const secretBytes = 32

// Generated names an entry of a Secret that the provider makes up, once. Another value later
// would lock a graph out of its own database: it reads it at its start. Control tokens can change;
// package control makes them.
type Generated struct{ Secret, Key string } //nolint:gosec // the name of a Secret, not its value

// Password is the one that a graph may ask for.
var Password = Generated{Secret: placement.PasswordSecret, Key: placement.PasswordKey}

// Build builds the Secret with a new value.
func (g Generated) Build(s *scope.Scope) *corev1.Secret {
	value := make([]byte, secretBytes)
	_, _ = rand.Read(value) // never fails: crypto/rand ends the process instead
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: s.ObjectMeta(g.Secret),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{g.Key: []byte(base64.RawURLEncoding.EncodeToString(value))},
	}
}
