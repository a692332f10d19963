// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package openid

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsOfLoginsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "Logging in with a browser", true,
		limitstable.Limit{Name: "an answer of the provider", Number: limitstable.Bytes(maxAnswer), Says: []string{fmt.Sprintf("more than %d bytes", maxAnswer)}},
		limitstable.Limit{Name: "how long an exchange with the provider takes", Number: limitstable.Duration(exchangeTimeout)},
		limitstable.Limit{Name: "how long a person has in the browser", Number: limitstable.Duration(DefaultPatience), Says: []string{fmt.Sprintf("within %s", DefaultPatience)}},
		limitstable.Limit{Name: "how long a person has on another device", Number: limitstable.Duration(DevicePatience), Says: []string{fmt.Sprintf("within %s", DevicePatience)}},
		limitstable.Limit{Name: "the code that a person enters on another device", Number: limitstable.Bytes(maxUserCode), Says: []string{fmt.Sprintf("more than %d bytes", maxUserCode)}},
		limitstable.Limit{Name: "how long a process waits for another one that refreshes the login", Number: limitstable.Duration(lockTimeout), Says: []string{fmt.Sprintf("for %s", lockTimeout)}},
		limitstable.Limit{Name: "how long before its end a token is refreshed", Number: limitstable.Duration(leeway)},
		limitstable.Limit{Name: "the file of a login", Number: limitstable.Bytes(maxLogin), Says: []string{fmt.Sprintf("more than %d bytes", maxLogin)}},
	)
}
