// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// TestWhatTheAPIServerFillsInIsNotAChange has a Deployment as an API server gave it back (testdata/live-deployment.json). One that never
// is as it is to be would be written for ever.
func TestWhatTheAPIServerFillsInIsNotAChange(t *testing.T) {
	text, err := os.ReadFile("testdata/live-deployment.json")
	if err != nil {
		t.Fatal(err)
	}
	live := &appsv1.Deployment{}
	if err := json.Unmarshal(text, live); err != nil {
		t.Fatal(err)
	}
	wanted := render(serviceOf(t, "{metadata: {name: backend}, spec: {selector: {app: backend}, ports: [{name: http, port: 80, targetPort: http}]}}"), nil, "localhost/sandbar/proxy:dev").deployment
	// They name what was written, which is another one in each version.
	maps.Copy(live.Annotations, wanted.Annotations)
	live.Spec.Template.Annotations = wanted.Spec.Template.Annotations
	if !isDeployment(live, wanted) || !equality.Semantic.DeepDerivative(wanted.Spec.Template.Spec.Containers, live.Spec.Template.Spec.Containers) {
		t.Error("it would be written again")
	}
	live.Spec.Template.Spec.Containers[0].Image = "other"
	if isDeployment(live, wanted) {
		t.Error("another image is not seen")
	}
}
