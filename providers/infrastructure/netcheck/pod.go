// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/sandbar-dev/sandbar/pkg/netcheck"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

type (
	podInterface = corev1client.PodInterface
	object       = runtime.Object
)

// build builds a pod that runs the runner's program, as the pods of sandboxes run: at the pod
// security level restricted, and in their runtime class, which may have a network of its own.
func (c *checker) build(name string, args []string) *corev1.Pod {
	small := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("16Mi"),
	}
	container := corev1.Container{
		Name: "netcheck", Image: c.settings.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: append([]string{"/sandbar-runner"}, args...),
		// What a pod prints is in its status then: it finds something out with each exit code but zero.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		Resources: corev1.ResourceRequirements{Limits: small, Requests: small},
	}
	if name == podOpen || name == podShut {
		// The node may probe its pods whatever policies say, so that a pod which listens is known
		// from one that nobody can reach.
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(netcheck.Port)}},
			PeriodSeconds: 1,
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: c.namespace,
			Labels: map[string]string{labelPod: name, placement.LabelManagedBy: placement.ManagedBy},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: new(int64(podSeconds)), TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), RunAsGroup: new(int64(1000)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container},
		},
	}
	if c.settings.RuntimeClass != "" {
		pod.Spec.RuntimeClassName = &c.settings.RuntimeClass
	}
	return pod
}
