// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/json"
	"log/slog"
	"net/http"
)

const redacted = "[redacted]"

// Caller is who asks, with what it takes to ask kcp as them. The zero value is nobody.
//
// A Caller prints, logs and marshals as "[redacted]", because it ends up in structs that
// somebody will log one day. Compare callers by CredentialKey.
type Caller struct {
	// token is behind a pointer, because package fmt does not call the methods of values in
	// unexported fields: of a struct that holds a Caller it would print a plain string.
	token *string
}

// Bearer is the caller with a bearer token.
func Bearer(token string) Caller { return Caller{token: &token} }

// IsZero tells whether there is no caller.
func (c Caller) IsZero() bool { return c.token == nil || *c.token == "" }

// CredentialKey is what tells one caller from another, for keys of caches. Hash it before you
// keep it: it contains the credential.
func (c Caller) CredentialKey() string {
	if c.IsZero() {
		return ""
	}
	return "bearer\x00" + *c.token
}

// authenticate puts the credential on a request to kcp. It is the only place that does.
func (c Caller) authenticate(header http.Header) {
	header.Set("Authorization", "Bearer "+*c.token)
}

// String implements fmt.Stringer.
func (Caller) String() string { return redacted }

// GoString implements fmt.GoStringer, for %#v.
func (Caller) GoString() string { return redacted }

// LogValue implements slog.LogValuer.
func (Caller) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler.
func (Caller) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }
