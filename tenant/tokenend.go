// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// latestEnd is the end of the year 9999, in Unix seconds.
const latestEnd = 253402300799

// TokenEnd is when the caller's token says that it ends, to the second; zero for a caller without
// a token and for one that is no JWT or has no such end. Nobody has verified it: whoever made the
// token up wrote what they like. It is good for when to ask kcp, never for what the answer is.
func (c Caller) TokenEnd() time.Time {
	if c.IsZero() {
		return time.Time{}
	}
	return tokenEnd(c.is.token)
}

func tokenEnd(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		End float64 `json:"exp"` // may have a fraction
	}
	if json.Unmarshal(payload, &claims) != nil || claims.End < 1 || claims.End > latestEnd {
		return time.Time{}
	}
	return time.Unix(int64(claims.End), 0)
}
