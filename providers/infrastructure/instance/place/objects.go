// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// AnnotationRefused on the kro instance is the generation of the tenant's object whose pod is refused.
const AnnotationRefused = "sandbar.dev/refused-generation"

// AnnotationPodOf on the kro instance are the UIDs of the SandboxTemplates that its pod was made of.
const AnnotationPodOf = "sandbar.dev/pod-of"

// AnnotationPodWords on the kro instance is a hash of what its tenant had written of the pod when it was made.
const AnnotationPodWords = "sandbar.dev/pod-words"

// AnnotationSetChange on the kro instance is what the set has changed in the pod that it made (scope.PodChange), in
// JSON. An instance that has taken the member keeps that until what it says of the pod itself changes.
const AnnotationSetChange = "sandbar.dev/set-change"

// Differs tells whether an object lacks one of the desired labels or annotations or has another
// spec. What others added to its metadata, kro's labels and finalizer above all, is theirs.
func Differs(desired, current client.Object) bool {
	if !contains(current.GetLabels(), desired.GetLabels()) || !contains(current.GetAnnotations(), desired.GetAnnotations()) {
		return true
	}
	switch d := desired.(type) {
	case *corev1.Namespace:
		return describesOtherwise(d, current) || isPartOfAnother(d, current) // what a tenant has taken back goes, too
	case *corev1.ResourceQuota:
		return !equality.Semantic.DeepEqual(d.Spec, current.(*corev1.ResourceQuota).Spec)
	case *corev1.LimitRange:
		return !equality.Semantic.DeepEqual(d.Spec, current.(*corev1.LimitRange).Spec)
	case *networkingv1.NetworkPolicy:
		return !equality.Semantic.DeepEqual(d.Spec, current.(*networkingv1.NetworkPolicy).Spec)
	case *unstructured.Unstructured:
		// Why an instance is suspended, whether it is being updated, and whether what its tenant has
		// written is refused, may change, and end, without another change.
		for _, name := range []string{placement.AnnotationSuspension, placement.AnnotationUpdating, AnnotationRefused, AnnotationPodOf, AnnotationPodWords, AnnotationSetChange} {
			if d.GetAnnotations()[name] != current.GetAnnotations()[name] {
				return true
			}
		}
		return !equality.Semantic.DeepEqual(d.Object["spec"], current.(*unstructured.Unstructured).Object["spec"])
	}
	return false
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// ApplyConfiguration is an object without the fields that only its Go type brings along.
func ApplyConfiguration(obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	config := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(config.Object, "metadata", "creationTimestamp")
	if _, isInstance := obj.(*unstructured.Unstructured); !isInstance {
		unstructured.RemoveNestedField(config.Object, "status")
		if spec, ok := config.Object["spec"].(map[string]any); ok && len(spec) == 0 {
			delete(config.Object, "spec")
		}
	}
	return config, nil
}
