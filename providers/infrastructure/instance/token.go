// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"crypto/rand"
	"encoding/base64"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// secretBytes is the length of what is made up here before its encoding: 256 bits cannot be
// guessed.
const secretBytes = 32

// generated names an entry of a Secret that the provider makes up, once. Another value later
// would lock the data plane out of a running sandbox, or a graph out of its own database: they
// read it at their start.
type generated struct{ secret, key string }

var (
	controlToken = generated{placement.ControlSecret, placement.ControlTokenKey}
	password     = generated{placement.PasswordSecret, placement.PasswordKey}
)

// build builds the Secret with a new value.
func (g generated) build(s *scope) *corev1.Secret {
	value := make([]byte, secretBytes)
	_, _ = rand.Read(value) // never fails: crypto/rand ends the process instead
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: s.objectMeta(g.secret),
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{g.key: []byte(base64.RawURLEncoding.EncodeToString(value))},
	}
}
