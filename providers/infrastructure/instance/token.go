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

// tokenBytes is the length of a control token before its encoding: 256 bits cannot be guessed.
const tokenBytes = 32

// buildToken builds the Secret with a new control token. The token is made once: the runner
// reads it at its start, so another one would lock the data plane out of a running sandbox.
func buildToken(s *scope) *corev1.Secret {
	token := make([]byte, tokenBytes)
	_, _ = rand.Read(token) // never fails: crypto/rand ends the process instead
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: s.objectMeta(placement.ControlSecret),
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			placement.ControlTokenKey: []byte(base64.RawURLEncoding.EncodeToString(token)),
		},
	}
}
