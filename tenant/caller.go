// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
)

const redacted = "[redacted]"

// Caller is who asks, with what it takes to ask kcp for them. The zero value is nobody.
//
// A Caller prints, logs and marshals as "[redacted]", because it ends up in structs that
// somebody will log one day. Compare callers by CredentialKey.
type Caller struct {
	// is is a pointer, because package fmt does not call the methods of values in unexported
	// fields: of a struct that holds a Caller it would print the plain strings.
	is *identity
}

// identity is either a token or a user, and never changes.
type identity struct {
	key   [sha256.Size]byte
	token string
	user  *authenticationv1.UserInfo
}

// Bearer is the caller with a bearer token: kcp is asked as them, and says who they are.
func Bearer(token string) Caller {
	if token == "" {
		return Caller{}
	}
	var room [2 << 10]byte // for most tokens; each request with one comes by here
	key := sha256.Sum256(append(append(room[:0], "bearer\x00"...), token...))
	return Caller{&identity{key: key, token: token}}
}

// Subject is a caller whose name somebody trustworthy has verified, without a credential: kcp
// is asked about them. Groups, UID and all extra keys belong to who they are; without them a
// scoped user would have more rights than it was given.
func Subject(user authenticationv1.UserInfo) Caller {
	if user.Username == "" {
		return Caller{}
	}
	user = *user.DeepCopy()
	return Caller{&identity{key: subjectKey(&user), user: &user}}
}

// subjectKey has each part with its length in front: without, the groups "a" and "bc" would be
// the groups "ab" and "c". Groups keep their order; extra keys have none, so they are sorted.
func subjectKey(user *authenticationv1.UserInfo) [sha256.Size]byte {
	key := []byte("subject\x00")
	list := func(parts ...string) {
		key = binary.AppendUvarint(key, uint64(len(parts)))
		for _, part := range parts {
			key = binary.AppendUvarint(key, uint64(len(part)))
			key = append(key, part...)
		}
	}
	list(user.Username, user.UID)
	list(user.Groups...)
	for _, name := range slices.Sorted(maps.Keys(user.Extra)) {
		list(name)
		list(user.Extra[name]...)
	}
	return sha256.Sum256(key)
}

// IsZero tells whether there is no caller.
func (c Caller) IsZero() bool { return c.is == nil }

// CredentialKey is what tells one caller from another, for keys of caches: SHA-256 of the
// credential, or of all that is known of who it is. What is hashed begins with which of them it
// is, so that no token can be made to look like a subject. The key of nobody is zero.
func (c Caller) CredentialKey() [sha256.Size]byte {
	if c.IsZero() {
		return [sha256.Size]byte{}
	}
	return c.is.key
}

// leastToken is the length from which a token is looked for in other texts: a shorter one would be
// found in many that have nothing to do with it.
const leastToken = 8

// IsIn reports whether a text holds the caller's token, as it is or in base64, as a WebSocket
// subprotocol carries it. A Subject has no token.
func (c Caller) IsIn(text string) bool {
	if c.IsZero() || len(c.is.token) < leastToken || len(text) < len(c.is.token) {
		return false
	}
	if strings.Contains(text, c.is.token) {
		return true
	}
	for _, encoding := range []*base64.Encoding{base64.RawURLEncoding, base64.RawStdEncoding} {
		if len(text) >= encoding.EncodedLen(len(c.is.token)) && strings.Contains(text, encoding.EncodeToString([]byte(c.is.token))) {
			return true
		}
	}
	return false
}

// User returns who a Subject caller is. A bearer caller is known to kcp alone; ask
// Client.WhoAmI.
func (c Caller) User() (authenticationv1.UserInfo, bool) {
	if c.IsZero() || c.is.user == nil {
		return authenticationv1.UserInfo{}, false
	}
	return *c.is.user.DeepCopy(), true
}

// authenticate puts the credential on a request to kcp. It is the only place that does.
func (c Caller) authenticate(header http.Header) {
	header.Set("Authorization", "Bearer "+c.is.token)
}

// String implements fmt.Stringer.
func (Caller) String() string { return redacted }

// GoString implements fmt.GoStringer, for %#v.
func (Caller) GoString() string { return redacted }

// LogValue implements slog.LogValuer.
func (Caller) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler.
func (Caller) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }
