// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestWhatIsAKey(t *testing.T) {
	for key, good := range map[string]bool{
		"6f1c0d7e-3b1e-4d43-9c51-0d6b0f6f7c11": true, "a b/c": true, "~": true, strings.Repeat("k", MaxKey): true,
		"": false, strings.Repeat("k", MaxKey+1): false, "a\nb": false, "ключ": false, "\x7f": false,
	} {
		if err := Check(key); (err == nil) != good || err != nil && !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestAHashIsALabelAndTellsKeysApart(t *testing.T) {
	for _, key := range []string{"a", "b", strings.Repeat("k", MaxKey)} {
		if problems := validation.IsValidLabelValue(Hash(key)); len(problems) > 0 {
			t.Errorf("%q: %v", key, problems)
		}
	}
	if again := strings.Clone("a"); Hash("a") == Hash("b") || Hash("a") != Hash(again) {
		t.Error("hashes do not tell keys apart")
	}
}
