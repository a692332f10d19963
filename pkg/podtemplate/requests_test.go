// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"strings"
	"testing"
)

// A request of 13 GiB is below the most of one container, and above what the quota has: the pod would wait
// for ever for room that never comes.
func TestAPodThatNoQuotaHasRoomForIsRefusedWithTheNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		says []string // nil if the pod is let through
	}{
		"as much as there is":                            {container(`resources: {requests: {cpu: "4", memory: 8Gi, ephemeral-storage: 10Gi}}`), nil},
		"more memory":                                    {container(`resources: {requests: {memory: 13Gi}, limits: {memory: 16Gi}}`), []string{"spec.containers: request 13Gi of memory together", "is 8Gi", "spec.quota.hard[requests.memory]"}},
		"more CPU and disk":                              {container(`resources: {requests: {cpu: "5", ephemeral-storage: 11Gi}}`), []string{"request 5 of cpu", "is 4;", "request 11Gi of ephemeral-storage", "is 10Gi"}},
		"a limit beside a request":                       {container(`resources: {requests: {memory: 1Gi}, limits: {memory: 16Gi}}`), nil},
		"a limit without a request":                      {container(`resources: {limits: {memory: 9Gi}}`), []string{"request 9Gi of memory", "a limit without a request counts as one"}},
		"defaults fit":                                   {container(`resources: {}`), nil},
		"a container that initializes counts for itself": {own(`, initContainers: [{name: i, resources: {requests: {memory: 9Gi}}}]`), []string{"request 9Gi of memory"}},
		"one that runs on counts beside the others": {
			own(`, initContainers: [{name: i, restartPolicy: Always, resources: {requests: {memory: 8Gi}}}]`), []string{"request 8320Mi of memory"},
		},
		"two that initialize come after each other": {own(`, initContainers: [{name: i, resources: {requests: {memory: 5Gi}}}, {name: j, resources: {requests: {memory: 5Gi}}}]`), nil},
		"too much for a container comes alone":      {container(`resources: {requests: {memory: 17Gi}}`), []string{"17Gi is too much; give 16Gi at most"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(source(t, c.text), nil, nil, rules)
			if c.says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it was let through")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("it says %q, without %q", err, want)
				}
			}
			if name == "too much for a container comes alone" && strings.Contains(err.Error(), "together") {
				t.Errorf("it says %q", err)
			}
		})
	}
}
