// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package credential

import (
	"testing"
	"time"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfCredentials(t *testing.T) {
	issued := time.Now()
	for lifetime, want := range map[time.Duration]time.Duration{3 * time.Hour: time.Hour, 30 * 24 * time.Hour: 24 * time.Hour} {
		if due := (Token{Issued: issued, Expires: issued.Add(lifetime)}).Due().Sub(issued); due != want {
			t.Errorf("a token of %s is renewed after %s, and the document says a third of its life, a day at most", lifetime, due)
		}
	}
	limitstable.Check(t, "../../docs/limits.md", "The provider's own", false,
		limitstable.Limit{
			Name: "age at which a token is renewed", Number: "a third of its life, a day at most",
			Says: []string{"after " + limitstable.Duration(retryFirst) + " to " + limitstable.Duration(retryMost)},
		},
	)
}
