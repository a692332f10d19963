// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/deadline"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/canary"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/place"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/rollout"
)

const limitsDocument = "../../docs/limits.md"

func TestTheTableOfLimitsHasTheNumbersOfSilentServers(t *testing.T) {
	silent := deadline.Default()
	limitstable.Check(t, limitsDocument, "Silent servers", true,
		limitstable.Limit{Name: "until a read is answered", Number: limitstable.Duration(silent.Read), Says: []string{deadline.ErrSilent.Error()}},
		limitstable.Limit{Name: "until a write is answered", Number: limitstable.Duration(silent.Write)},
		limitstable.Limit{Name: "between two pieces of an answer", Number: limitstable.Duration(silent.Body)},
		limitstable.Limit{Name: "between two events or bookmarks of a watch", Number: limitstable.Duration(silent.Watch)},
		limitstable.Limit{Name: "one reconcile of an instance; of anything else", Number: limitstable.Duration(export.ReconcileTimeout) + "; " + limitstable.Duration(reconcileTimeout)},
		limitstable.Limit{Name: "kro, to compose the canary", Number: limitstable.Duration(canary.DefaultPatience) + ", every " + limitstable.Duration(canary.DefaultInterval)},
	)
}

func TestTheTableOfLimitsHasTheNumbersOfRollouts(t *testing.T) {
	limitstable.Check(t, limitsDocument, "Changes of the operator", true,
		limitstable.Limit{Name: "`maxUnavailable`", Number: rollout.DefaultMaxUnavailable},
		limitstable.Limit{Name: "`maxFailed`", Number: rollout.DefaultMaxFailed + ", at least one"},
		limitstable.Limit{Name: "time for which a placement counts as being updated whose instance was not looked at yet", Number: "`progressDeadlineSeconds`"},
		limitstable.Limit{Name: "former revisions of a graph that instances have", Number: limitstable.Count(revision.MaxGraphs)},
		limitstable.Limit{Name: "size of all revisions' graphs together, packed", Number: limitstable.Bytes(revision.MaxRecord)},
		limitstable.Limit{Name: "length of a resource's id in a graph", Number: limitstable.Count(int64(revision.MaxID))},
	)
}

func TestTheTableOfLimitsHasTheNumbersOfPlacements(t *testing.T) {
	limitstable.Check(t, limitsDocument, "Instances that are placed", true,
		limitstable.Limit{
			Name: "`instancesPerWorkspace`", Number: limitstable.Count(sandbarv1alpha1.DefaultInstancesPerWorkspace),
			Says: []string{fmt.Sprintf("the workspace may have %d instances at once", sandbarv1alpha1.DefaultInstancesPerWorkspace)},
		},
		limitstable.Limit{Name: "`placements`", Number: limitstable.Count(sandbarv1alpha1.DefaultPlacements)},
		limitstable.Limit{Name: "`setReplicas`", Number: limitstable.Count(sandbarv1alpha1.DefaultSetReplicas)},
	)
}

// The numbers that are private to other packages are compared there.
func TestTheTableOfLimitsHasTheNumbersOfTheProvider(t *testing.T) {
	limitstable.Check(t, limitsDocument, "The provider's own", true,
		limitstable.Limit{
			Name:   "`--token-lifetime` of `init`",
			Number: fmt.Sprintf("%.0fh, at least %.0fh", install.DefaultTokenLifetime.Hours(), install.MinTokenLifetime.Hours()),
		},
		limitstable.Limit{
			Name:   "`--runtime-name` of `init`",
			Number: fmt.Sprintf("%d characters, lower-case letters and digits behind a letter", placement.MaxProviderName),
		},
		limitstable.Limit{Name: "age at which a token is renewed", Number: "a third of its life, a day at most"},
		limitstable.Limit{Name: "the verb `password`: time for the runtime cluster's answer", Number: "10 s"},
		limitstable.Limit{Name: "the check of network policies and DNS", Number: "3 min, every 6 h; every 10 min while something is wrong"},
		limitstable.Limit{
			Name:   "a field of a tenant's [description](sandbox.md) on a placement's Namespace",
			Number: fmt.Sprintf("%d KiB, 63 bytes as a label", place.MaxDescription>>10),
		},
		limitstable.Limit{Name: "`isolation.egress.dns`", Number: "8 podLabels, 4 ports, 16 addresses"},
		limitstable.Limit{Name: "pods of that check", Number: "6 at a time, 300 s each, both by admission; 8 pods, 2 CPU, 512Mi, 512Mi of disk by its quota"},
	)
}
