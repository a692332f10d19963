// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

// purpose keeps these MACs apart from whatever else a key may come to be used for.
const purpose = "sandbar control token v1"

// key is one of the provider's, with the name of its entry.
type key struct {
	name   string
	secret []byte
}

func (key) String() string   { return "[redacted]" }
func (key) GoString() string { return "[redacted]" }

// token derives the control token of a placement. Nobody who has it learns anything of the key, or of
// another placement's.
func (k key) token(id placement.ID) string {
	h := hmac.New(sha256.New, k.secret)
	// Neither a cluster's name nor a UID has a line break. A hash never returns an error.
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s", purpose, id.Origin, id.UID)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// random makes up a token.
func random() string {
	value := make([]byte, KeyBytes)
	_, _ = rand.Read(value) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(value)
}

// keys are the provider's, the newest first: the names of entries sort by their age.
type keys []key

// parseKeys reads the entries of the Secret. bad are the names of those that are no key.
func parseKeys(data map[string][]byte) (parsed keys, bad []string) {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(data))) {
		if len(data[name]) != KeyBytes {
			bad = append(bad, name)
			continue
		}
		parsed = append(parsed, key{name, data[name]})
	}
	return parsed, bad
}

// find returns the key with a name; nil if there is none.
func (k keys) find(name string) *key {
	for i := range k {
		if k[i].name == name {
			return &k[i]
		}
	}
	return nil
}
