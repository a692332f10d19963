// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package frozen

import (
	"fmt"
	"strconv"
	"testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheNumbersOfCopies(t *testing.T) {
	components := clone.SpecSchema().Properties["components"]
	one := components.Items.Schema
	overrides := one.Properties["overrides"]
	limitstable.Check(t, "../../../docs/limits.md", "Sandbox groups", true,
		limitstable.Limit{Name: "components of a group", Number: strconv.FormatInt(*components.MaxItems, 10)},
		limitstable.Limit{Name: "the name of a component", Number: fmt.Sprintf("%d characters", *one.Properties["name"].MaxLength)},
		limitstable.Limit{Name: "labels and annotations of an override, each", Number: strconv.FormatInt(*overrides.Properties["templateLabels"].MaxProperties, 10)},
		limitstable.Limit{Name: "`podTemplatePatch`", Number: fmt.Sprintf("%d operations, %s", sandbarv1alpha1.MaxPodTemplatePatchOperations, limitstable.Bytes(sandbarv1alpha1.MaxPodTemplatePatchBytes))},
		limitstable.Limit{Name: "the pod template while it is patched", Number: limitstable.Bytes(clone.MaxTemplateBytes)},
		limitstable.Limit{Name: "replicas of a copy, by default", Number: strconv.Itoa(sandbarv1alpha1.DefaultBaselineReplicas)},
		limitstable.Limit{Name: "what is frozen of a workload", Number: fmt.Sprintf("%s, %s compressed", limitstable.Bytes(clone.MaxSnapshotBytes), limitstable.Bytes(clone.MaxEncodedBytes))},
		limitstable.Limit{Name: "what is frozen for a group, compressed", Number: limitstable.Bytes(MaxBytes)},
		limitstable.Limit{Name: "all copies of a group, as JSON", Number: limitstable.Bytes(clone.MaxCopiesBytes)},
		limitstable.Limit{Name: "whole pod templates in a status, together", Number: limitstable.Bytes(clone.MaxDisclosedBytes)},
	)
}
