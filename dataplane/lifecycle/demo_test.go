// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// demoID is the instance that the tests use.
var demoID = placement.ID{Origin: "cluster1", UID: "uid-demo"}

func placementMeta(id placement.ID, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: id.Namespace(), Labels: id.Labels("sandbox-runner")}
}
