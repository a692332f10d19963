// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// MaxCommandBytes is how many bytes the words of a command have at most, together: a record has to fit beside the snapshots.
const MaxCommandBytes = 16 << 10

// reservedDirs are directories that neither the target path may be nor lie in: they are the kernel's, the kubelet's or the
// runner's.
var reservedDirs = []string{"/proc", "/sys", "/dev", "/etc", runnerDir, "/var/run/secrets", "/run/secrets"}

// containerOf is the container that a session is about.
func containerOf(pod *corev1.PodSpec, name string) (*corev1.Container, error) {
	var names []string
	for i := range pod.Containers {
		if name == "" || pod.Containers[i].Name == name {
			return &pod.Containers[i], nil
		}
		names = append(names, pod.Containers[i].Name)
	}
	return nil, Refuse(sandbarv1alpha1.DevSessionContainerNotFound, "spec.containerName: the workload has no container %q; it has %s", name, strings.Join(names, ", "))
}

// check refuses a spec that no session of this pod can have.
func check(spec *sandbarv1alpha1.DevSessionSpec, pod *corev1.PodSpec, container *corev1.Container) error {
	if err := checkPath(spec.TargetPath, container); err != nil {
		return err
	}
	if _, err := commandOf(spec, container); err != nil {
		return err
	}
	if err := checkVolumes(pod); err != nil {
		return err
	}
	return checkNames(pod, container)
}

// checkPath refuses target paths at which a volume cannot be mounted, or where the pod has one.
func checkPath(target string, container *corev1.Container) error {
	switch {
	case !path.IsAbs(target) || path.Clean(target) != target || target == "/":
		return Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.targetPath: %q is not the clean absolute path of a directory below /; write it as in /app", target)
	case len(target) > sandbarv1alpha1.MaxDevSessionTargetPath:
		return Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.targetPath: has %d characters, and %d are the most", len(target), sandbarv1alpha1.MaxDevSessionTargetPath)
	}
	for _, dir := range reservedDirs {
		if within(target, dir) || within(dir, target) && dir == runnerDir {
			return Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.targetPath: %s is not a directory of the app's; choose one that is not in %s", target, dir)
		}
	}
	for _, mount := range container.VolumeMounts {
		if at := path.Clean(mount.MountPath); within(target, at) || within(at, target) {
			return Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.targetPath: the pod has volume %q at %s, and a session's volume can neither lie in it nor hide it; choose a directory beside it", mount.Name, at)
		}
	}
	for _, device := range container.VolumeDevices {
		if within(path.Clean(device.DevicePath), target) {
			return Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.targetPath: the pod has the device %q at %s, which a session's volume would hide; choose a directory beside it", device.Name, device.DevicePath)
		}
	}
	return nil
}

// within reports whether a path is a directory or lies in it.
func within(at, dir string) bool {
	return at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}

// commandOf is the program that the runner starts, with its arguments.
func commandOf(spec *sandbarv1alpha1.DevSessionSpec, container *corev1.Container) ([]string, error) {
	command := spec.Command
	if len(command) == 0 {
		if len(container.Command) == 0 {
			return nil, Refuse(sandbarv1alpha1.DevSessionCommandRequired, "spec.command: is required, since container %q names no command, and what its image starts by itself is not known; write the program and its arguments", container.Name)
		}
		command = slices.Concat(container.Command, container.Args)
	}
	size := 0
	for _, word := range command {
		size += len(word)
	}
	if len(spec.Command) > 0 && size > MaxCommandBytes {
		return nil, Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.command: has %d bytes, and %d are the most; put what is long into a file of the workspace", size, MaxCommandBytes)
	}
	if command[0] == "" {
		return nil, Refuse(sandbarv1alpha1.DevSessionInvalidSpec, "spec.command[0]: is empty; write the program")
	}
	return command, nil
}

// checkVolumes refuses volumes that the session's pod would have together with the copy's.
//
// The attack on data: for a while both run, and two pods that write the files of one database destroy them. Also, a volume of one
// node would keep the session's pod from starting.
func checkVolumes(pod *corev1.PodSpec) error {
	for i := range pod.Volumes {
		if claim := pod.Volumes[i].PersistentVolumeClaim; claim != nil {
			return Refuse(sandbarv1alpha1.DevSessionNotDevelopable, "the workload has the persistent volume %q, which two pods must not write at once, and a session runs beside the copy for a while; "+
				"put an emptyDir into its place by podTemplatePatch, or develop another workload", pod.Volumes[i].Name)
		}
	}
	return nil
}

// checkNames refuses what has a name, a path or the port of the runner's.
//
// The attack: a volume or a mount of the workload's in the place of the runner's own, by which it would read another file for
// its token.
func checkNames(pod *corev1.PodSpec, container *corev1.Container) error {
	taken := func(what, name string) error {
		return Refuse(sandbarv1alpha1.DevSessionNotDevelopable, "the workload has %s %q, which the runner of a session would have itself; change it by overrides or podTemplatePatch", what, name)
	}
	for i := range pod.Volumes {
		if strings.HasPrefix(pod.Volumes[i].Name, ownPrefix) {
			return taken("the volume", pod.Volumes[i].Name)
		}
	}
	for i := range pod.InitContainers {
		if strings.HasPrefix(pod.InitContainers[i].Name, ownPrefix) {
			return taken("the init container", pod.InitContainers[i].Name)
		}
	}
	for _, mount := range container.VolumeMounts {
		if within(path.Clean(mount.MountPath), runnerDir) {
			return taken("the mount", mount.MountPath)
		}
	}
	for i := range container.Env {
		if strings.HasPrefix(container.Env[i].Name, envPrefix) {
			return taken("the variable", container.Env[i].Name)
		}
	}
	return checkPort(pod)
}

// checkPort refuses a pod one of whose containers has the port of the runner: they share one network.
func checkPort(pod *corev1.PodSpec) error {
	for i := range pod.Containers {
		for _, port := range pod.Containers[i].Ports {
			if port.ContainerPort == RunnerPort {
				return Refuse(sandbarv1alpha1.DevSessionNotDevelopable, "container %q has port %d, at which the runner of a session serves; the workload cannot be developed before it has another", pod.Containers[i].Name, RunnerPort)
			}
		}
	}
	return nil
}
