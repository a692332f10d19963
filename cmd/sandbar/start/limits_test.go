// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package start

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsOfTheFirstCommandsHasTheCodesNumbers(t *testing.T) {
	limitstable.Check(t, "../../../docs/limits.md", "From an address to a bound workspace", false,
		limitstable.Limit{Name: "a token", Number: limitstable.Bytes(maxToken), Says: []string{fmt.Sprintf("more than %d bytes", maxToken)}},
		limitstable.Limit{Name: "the CA bundle of an OpenID provider", Number: limitstable.Bytes(maxBundleFile), Says: []string{fmt.Sprintf("more than %d bytes", maxBundleFile)}},
		limitstable.Limit{Name: "how long `bind` waits for the kinds", Number: limitstable.Duration(defaultBindTimeout), Says: []string{fmt.Sprintf("after %s", defaultBindTimeout)}},
		limitstable.Limit{Name: "`bind --timeout` at most", Number: limitstable.Duration(maxBindTimeout), Says: []string{fmt.Sprintf("to %s", maxBindTimeout)}})
}
