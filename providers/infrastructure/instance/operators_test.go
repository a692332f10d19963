// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/fixture"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
)

// An image that the operator names was told to its tenant as a name to correct.
func TestAnImageOfTheOperatorsIsNotTheTenantsToCorrect(t *testing.T) {
	const image = "registry.example.test/app:1" // of waitingFor
	for name, test := range map[string]struct {
		images       map[string]string
		reason, says string
		saysNot      string
	}{
		"it is the tenant's": {map[string]string{"runner": "registry.example.test/runner:1"}, outcome.ReasonImage, "correct its name", "the operator"},
		"it is the operator's": {
			map[string]string{"runner": "registry.example.test/runner:1", "node": image}, outcome.ReasonProviderImage, "the operator has to see to it", "correct",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.PodOf("a", fixture.WaitingFor("ImagePullBackOff", "not found"))
			w := newWorld(t, &pod)
			w.settings.Infrastructure.Images = test.images
			w.settle()
			for _, condition := range []string{"Composed", "Ready"} {
				got := fixture.ConditionOf(t, w.inKCP, condition)
				if !strings.Contains(got.Message, image) || !strings.Contains(got.Message, test.says) || strings.Contains(got.Message, test.saysNot) {
					t.Errorf("%s says %q", condition, got.Message)
				}
			}
			if got := fixture.ConditionOf(t, w.inKCP, "Composed").Reason; got != test.reason {
				t.Errorf("Composed has the reason %s", got)
			}
		})
	}
}

// A tenant reads in docs/lifecycle.md what a reason means and whose turn it is.
func TestEveryReasonThatTheTablesAreForIsDocumented(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/lifecycle.md")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`[A-Z][A-Za-z]+`).FindAllString(string(docs), -1)
	for _, reason := range slices.Concat(outcome.ReasonsOfComposed, outcome.LossReasons, []string{outcome.ReasonQuota, outcome.ReasonPodRefused, outcome.ReasonRuntimeClass, outcome.ReasonSpecRefused}) {
		if !slices.Contains(words, reason) {
			t.Errorf("docs/lifecycle.md does not have %s", reason)
		}
	}
}
