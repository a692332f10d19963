// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import corev1 "k8s.io/api/core/v1"

// defaultUser runs what names no user. Most images name none, or one that cannot be proved not
// to be root; with a number, they pass the level restricted and can write to their volumes.
const defaultUser int64 = 1000

// secure fills in what is left out of the security contexts, so that an ordinary pod passes the
// pod security level restricted. What is written stays: the namespace's level judges it. It reports
// whether it has given a user that the tenant names a group.
func secure(spec *corev1.PodSpec) (grouped bool) {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod := spec.SecurityContext
	if pod.SeccompProfile == nil {
		pod.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	if pod.RunAsNonRoot == nil {
		pod.RunAsNonRoot = new(true)
	}
	named := pod.RunAsUser != nil
	if !named && *pod.RunAsNonRoot {
		pod.RunAsUser = new(defaultUser)
	}
	// A user without a group gets the image's or, where the image knows no such user, group 0, which
	// may write what images keep for arbitrary users.
	if pod.RunAsGroup == nil && pod.RunAsUser != nil && *pod.RunAsUser != 0 {
		pod.RunAsGroup = new(*pod.RunAsUser)
		grouped = named
	}
	if pod.FSGroup == nil {
		pod.FSGroup = new(defaultUser)
		if pod.FSGroupChangePolicy == nil {
			pod.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
		}
	}
	for i := range spec.InitContainers {
		secureContainer(&spec.InitContainers[i])
	}
	for i := range spec.Containers {
		secureContainer(&spec.Containers[i])
	}
	return grouped
}

func secureContainer(container *corev1.Container) {
	if container.SecurityContext == nil {
		container.SecurityContext = &corev1.SecurityContext{}
	}
	security := container.SecurityContext
	// Kubernetes refuses a privileged container that says no here; let the level refuse it.
	if security.AllowPrivilegeEscalation == nil && !isTrue(security.Privileged) {
		security.AllowPrivilegeEscalation = new(false)
	}
	if security.Capabilities == nil {
		security.Capabilities = &corev1.Capabilities{}
	}
	if security.Capabilities.Drop == nil {
		security.Capabilities.Drop = []corev1.Capability{"ALL"}
	}
}
