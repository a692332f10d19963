// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import "testing"

func TestAGraphWithAWorkloadRunsPods(t *testing.T) {
	for graph, want := range map[string]bool{
		`{"resources":[{"id":"a","template":{"kind":"ConfigMap"}},{"id":"b","template":{"kind":"StatefulSet"}}]}`: true,
		`{"resources":[{"id":"a","template":{"kind":"ConfigMap"}}]}`:                                              false,
		`{"resources":[{"id":"a","externalRef":{"kind":"Deployment"}}]}`:                                          false,
		`{}`:       false,
		`no graph`: false,
	} {
		if got := RunsPods([]byte(graph)); got != want {
			t.Errorf("%s: %v", graph, got)
		}
	}
}
