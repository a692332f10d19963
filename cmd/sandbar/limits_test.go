// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/sandbar-dev/sandbar/cmd/sandbar/cli"
	"github.com/sandbar-dev/sandbar/cmd/sandbar/object"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheCommandLinesNumbers(t *testing.T) {
	limitstable.Check(t, "../../docs/limits.md", "The command line", true,
		limitstable.Limit{Name: "instances that are compared with a name that does not exist", Number: limitstable.Count(cli.MostCompared), Says: []string{fmt.Sprintf("the first %d ", cli.MostCompared)}},
		limitstable.Limit{Name: "instances that the error names when no name is similar", Number: limitstable.Count(cli.MostOthers)},
		limitstable.Limit{Name: "objects of a file of `apply` and `create`", Number: limitstable.Count(object.MaxManifestObjects), Says: []string{fmt.Sprintf("more than %d objects", object.MaxManifestObjects)}},
		limitstable.Limit{Name: "a file with objects", Number: limitstable.Bytes(object.MaxManifest), Says: []string{fmt.Sprintf("more than %d bytes", object.MaxManifest)}},
		limitstable.Limit{Name: "a file with a template or with columns for `-o`", Number: limitstable.Bytes(object.MaxTemplateFile), Says: []string{fmt.Sprintf("more than %d bytes", object.MaxTemplateFile)}},
		limitstable.Limit{Name: "events that `describe` prints", Number: limitstable.Count(object.MostEvents)},
		limitstable.Limit{Name: "how long a shell waits for a completion", Number: limitstable.Duration(cli.CompletionTimeout)},
		limitstable.Limit{Name: "Sandboxes that one call of `claim` asks for, and of these at once", Number: fmt.Sprintf("%d, %d", object.MostClaims, object.ClaimsAtOnce), Says: []string{fmt.Sprintf("1 to %d ", object.MostClaims)}},
		limitstable.Limit{Name: "names that a completion reads of a kind", Number: limitstable.Count(cli.MostCompletions), Says: []string{fmt.Sprintf("the first %d ", cli.MostCompletions)}},
	)
}
