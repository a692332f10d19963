// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/sandbar-dev/sandbar/pkg/limitstable"
)

func TestTheTableOfLimitsHasTheQuotaOfTheNetworkCheck(t *testing.T) {
	text, err := manifests.ReadFile("manifests/runtime/15-netcheck.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = fill("15-netcheck.yaml", text, admissionValues(testOptions(), "restricted")); err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		var quota corev1.ResourceQuota
		if err := decoder.Decode(&quota); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if quota.Kind != "ResourceQuota" {
			continue
		}
		hard := quota.Spec.Hard
		pods, cpu, memory, disk := hard[corev1.ResourcePods], hard[corev1.ResourceLimitsCPU], hard[corev1.ResourceLimitsMemory], hard[corev1.ResourceLimitsEphemeralStorage]
		limitstable.CheckText(t, "../docs/limits.md", "The provider's own",
			fmt.Sprintf("%s pods, %s CPU, %s, %s of disk by its quota", pods.String(), cpu.String(), memory.String(), disk.String()))
		return
	}
	t.Error("there is no quota")
}
