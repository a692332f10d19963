// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// What the runtime Runner adds to a pod. A tenant's own names do not begin with ownPrefix, and its mounts do not lie in
// runnerDir.
const (
	ownPrefix = "sandbar-"
	runnerDir = "/sandbar"

	installName   = "sandbar-install-runner"
	binVolume     = "sandbar-bin"
	controlVolume = "sandbar-token"
	workVolume    = "sandbar-runner"

	binDir     = runnerDir + "/bin"
	controlDir = runnerDir + "/control"
	workDir    = runnerDir + "/runner"
	runnerPath = binDir + "/sandbar-runner"

	// RunnerPort is the port of the runner, in the first container. It has no name: a tenant's own may have any.
	RunnerPort = 7070
	// secretMode lets root and the pod's group read the control token.
	secretMode int32 = 0o440
)

// runs reports whether the runtime Runner stands before the command of the first container.
func (b *Base) runs() bool { return b != nil && b.Runtime == sandbarv1alpha1.RuntimeRunner }

// Late reports whether variables reach the pod while it runs.
func (p *Pod) Late() bool { return p.late }

// EnvNames are the names of the variables that the first container has by its own words.
func (p *Pod) EnvNames() []string {
	var names []string
	for _, v := range p.Template.Spec.Containers[0].Env {
		if !strings.HasPrefix(v.Name, "SANDBAR_") || !p.late {
			names = append(names, v.Name)
		}
	}
	return names
}

// bind gives the first container the variables of the Secret placement.BindingSecret. A pod of the runtime Runner has them
// if there are any, since it may be there before they are; another one does not start without.
func (p *Pod) bind(optional bool) {
	source := &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: placement.BindingSecret}}
	if optional {
		source.Optional = new(true)
	}
	container := &p.Template.Spec.Containers[0]
	container.EnvFrom = append(slices.Clone(container.EnvFrom), corev1.EnvFromSource{SecretRef: source})
}

// withRunner puts the runner before the command of the first container. The attack that the refusals are about: a volume or
// a mount of a tenant's in the place of the runner's own, by which it would read another file for its token.
func (p *Pod) withRunner(image string) error {
	if image == "" {
		return refuse("runtime.type: the operator has no image of the runner (spec.images.runner of the InfrastructureProvider); use None")
	}
	spec := &p.Template.Spec
	container := &spec.Containers[0]
	if len(container.Command) == 0 {
		return refuse("spec.containers[0].command: must be written with the runtime Runner, which starts it; what the image says itself is not known here")
	}
	if problems := p.ownNames(); len(problems) > 0 {
		return &RefusedError{Problems: problems}
	}
	container.Command = append([]string{runnerPath, "supervise"}, container.Command...)
	container.Env = append(slices.Clone(container.Env),
		corev1.EnvVar{Name: "SANDBAR_WORKDIR", Value: workDir},
		corev1.EnvVar{Name: "SANDBAR_CONTROL_TOKEN_FILE", Value: path.Join(controlDir, placement.ControlTokenKey)},
		corev1.EnvVar{Name: controlproof.PodUIDVariable, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"},
		}},
	)
	container.VolumeMounts = append(slices.Clone(container.VolumeMounts),
		corev1.VolumeMount{Name: binVolume, MountPath: binDir, ReadOnly: true},
		corev1.VolumeMount{Name: controlVolume, MountPath: controlDir, ReadOnly: true},
		corev1.VolumeMount{Name: workVolume, MountPath: workDir},
	)
	if container.ReadinessProbe == nil { // else a command that does not stay up would count as ready: the container does
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/healthz/app", Port: intstr.FromInt32(RunnerPort), Scheme: corev1.URISchemeHTTP,
			}},
			PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 3,
		}
	}
	limit := func(quantity string) *corev1.EmptyDirVolumeSource {
		return &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(quantity))}
	}
	spec.Volumes = append(slices.Clone(spec.Volumes),
		corev1.Volume{Name: binVolume, VolumeSource: corev1.VolumeSource{EmptyDir: limit("64Mi")}},
		corev1.Volume{Name: controlVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: placement.ControlSecret, DefaultMode: new(secretMode),
		}}},
		corev1.Volume{Name: workVolume, VolumeSource: corev1.VolumeSource{EmptyDir: limit("64Mi")}},
	)
	spec.InitContainers = append([]corev1.Container{installer(image)}, spec.InitContainers...)
	p.late = true
	return nil
}

// installer copies the runner into the pod. It asks for no more than it may have, so that it changes no pod's QoS class.
func installer(image string) corev1.Container {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return corev1.Container{
		Name: installName, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/sandbar-runner", "install", binDir},
		Resources:       corev1.ResourceRequirements{Requests: resources, Limits: resources.DeepCopy()},
		VolumeMounts:    []corev1.VolumeMount{{Name: binVolume, MountPath: binDir}},
		SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)},
	}
}

// ownNames lists what of the pod has a name or a path of the runner's.
func (p *Pod) ownNames() (problems []string) {
	spec := &p.Template.Spec
	add := func(field, what string) {
		problems = append(problems, fmt.Sprintf("%s: %q is the runner's own with the runtime Runner; choose another", field, what))
	}
	for i := range spec.Volumes {
		if strings.HasPrefix(spec.Volumes[i].Name, ownPrefix) {
			add(fmt.Sprintf("spec.volumes[%d].name", i), spec.Volumes[i].Name)
		}
	}
	for i := range p.VolumeClaimTemplates {
		if name := p.VolumeClaimTemplates[i].Metadata.Name; strings.HasPrefix(name, ownPrefix) {
			add(fmt.Sprintf("volumeClaimTemplates[%d].metadata.name", i), name)
		}
	}
	for i := range spec.InitContainers {
		if spec.InitContainers[i].Name == installName {
			add(fmt.Sprintf("spec.initContainers[%d].name", i), installName)
		}
	}
	container := &spec.Containers[0]
	for i, m := range container.VolumeMounts {
		if at := path.Clean(m.MountPath); at == runnerDir || strings.HasPrefix(at, runnerDir+"/") || strings.HasPrefix(m.Name, ownPrefix) {
			add(fmt.Sprintf("spec.containers[0].volumeMounts[%d]", i), m.MountPath)
		}
	}
	for i, v := range container.Env {
		if strings.HasPrefix(v.Name, "SANDBAR_") {
			add(fmt.Sprintf("spec.containers[0].env[%d].name", i), v.Name)
		}
	}
	for i, port := range container.Ports {
		if port.ContainerPort == RunnerPort {
			add(fmt.Sprintf("spec.containers[0].ports[%d].containerPort", i), strconv.Itoa(RunnerPort))
		}
	}
	return problems
}
