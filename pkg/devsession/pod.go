// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// What a session adds to a pod, as development of Templates does (providers/infrastructure/template/developpod.go). A
// workload's own names do not begin with ownPrefix, and its mounts do not lie in runnerDir.
const (
	ownPrefix = "sandbar-"
	envPrefix = "SANDBAR_"
	runnerDir = "/sandbar"

	installName = ownPrefix + "install-runner"
	// CopyName is the init container that copies the files of the image. What it could not do is its termination message.
	CopyName = ownPrefix + "copy-up"

	binVolume     = ownPrefix + "bin"
	controlVolume = ownPrefix + "token"
	workVolume    = ownPrefix + "workspace"
	tmpVolume     = ownPrefix + "tmp"

	binDir     = runnerDir + "/bin"
	controlDir = runnerDir + "/control"
	volumeDir  = runnerDir + "/volume"
	runnerPath = binDir + "/sandbar-runner"
	tmpDir     = "/tmp"

	// treePath is the directory of the volume that has the workspace (runner/workspace's TreeName).
	treePath = ".sandbar-workspace"

	// sharedGroup owns the volumes if the pod names no group itself: an app that is not root must be able to write to them.
	sharedGroup int64 = 1000
	// secretMode lets root and the pod's group read the control token.
	secretMode int32 = 0o440
	// nobody is the user of the container that installs the runner, which a pod that is root all in all must not make root.
	nobody int64 = 65532
)

// pod is the pod template of a session that is being made.
type pod struct {
	Input

	template  *corev1.PodTemplateSpec
	container *corev1.Container
}

// complete puts the runner before the command of the container, and the workspace in the place of the target path.
func (p *pod) complete() error {
	command, err := commandOf(&p.Record.Spec, p.container)
	if err != nil {
		return err
	}
	if image := p.Record.Spec.Image; image != "" {
		p.container.Image = image
	}
	p.container.Command, p.container.Args = append([]string{runnerPath, "supervise"}, command...), nil
	p.probe()
	p.environment()
	spec := &p.template.Spec
	// The other init containers first: what they make is for the app, and not for the workspace.
	spec.InitContainers = append(slices.Clone(spec.InitContainers), p.installer(), p.copier())
	p.volumes()
	p.group()
	return nil
}

// probe has the pod count as ready when the app serves: requests are led to it then. What would start the container again, and
// with it the runner, goes: an app that does not come up is what a developer is about to mend.
func (p *pod) probe() {
	c := p.container
	c.LivenessProbe, c.StartupProbe = nil, nil
	if c.ReadinessProbe == nil {
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: p.serves(), PeriodSeconds: 1, TimeoutSeconds: 2, FailureThreshold: 3}
	}
	if c.Lifecycle == nil {
		c.Lifecycle = &corev1.Lifecycle{}
	}
	c.Lifecycle.PostStart = &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{runnerPath, "wait"}}}
}

// serves asks whether the app listens, or, of one whose port is not known, whether it stays up. The runner answers the latter without
// a token, and the kubelet has none.
func (p *pod) serves() corev1.ProbeHandler {
	if port := p.appPort(); port != 0 {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(port)}}
	}
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz/app", Port: intstr.FromInt32(RunnerPort), Scheme: corev1.URISchemeHTTP}}
}

// appPort is the port of the container to which the workload's Service leads, the first of them; zero if it is not known.
func (p *pod) appPort() int32 {
	if p.Copy.Service == nil {
		return 0
	}
	for _, service := range p.Copy.Service.Spec.Ports {
		for _, port := range p.container.Ports {
			isTCP := port.Protocol == corev1.ProtocolTCP || port.Protocol == ""
			target := service.TargetPort
			byName := target.Type == intstr.String && target.StrVal == port.Name
			byNumber := target.Type == intstr.Int && target.IntVal == port.ContainerPort
			if isTCP && (byName || byNumber) {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// environment is the runner's configuration, beside the container's own.
func (p *pod) environment() {
	env := slices.Clone(p.container.Env)
	add := func(name, value string) { env = append(env, corev1.EnvVar{Name: name, Value: value}) }
	// Kubernetes expands $(NAME) in a value, and makes one of two dollar signs.
	add(envPrefix+"WORKDIR", strings.ReplaceAll(p.Record.Spec.TargetPath, "$", "$$"))
	add(envPrefix+"VOLUME", volumeDir)
	// A file and not a variable: what is in the environment, the process inherits.
	add(envPrefix+"CONTROL_TOKEN_FILE", path.Join(controlDir, placement.ControlTokenKey))
	if port := p.appPort(); port != 0 {
		add(envPrefix+"PORT", strconv.Itoa(int(port)))
	}
	// By this the data plane sees that it never has to send the token itself.
	p.container.Env = append(env, corev1.EnvVar{Name: controlproof.PodUIDVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.uid"},
	}})
}

// volumes adds the volumes of the runner and of the workspace, and mounts them.
func (p *pod) volumes() {
	spec := &p.template.Spec
	limited := func(name, size string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse(size))}}}
	}
	volumes := append(slices.Clone(spec.Volumes),
		limited(binVolume, "64Mi"),
		corev1.Volume{Name: controlVolume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: placement.ControlSecret, DefaultMode: new(secretMode),
		}}},
		corev1.Volume{Name: workVolume, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: ClaimName(p.Record.Name),
		}}},
	)
	mounts := append(slices.Clone(p.container.VolumeMounts),
		corev1.VolumeMount{Name: binVolume, MountPath: binDir, ReadOnly: true},
		corev1.VolumeMount{Name: controlVolume, MountPath: controlDir, ReadOnly: true},
		corev1.VolumeMount{Name: workVolume, MountPath: volumeDir},
		corev1.VolumeMount{Name: workVolume, MountPath: p.Record.Spec.TargetPath, SubPath: treePath},
	)
	if p.needsTmp() {
		volumes = append(volumes, limited(tmpVolume, "1Gi"))
		mounts = append(mounts, corev1.VolumeMount{Name: tmpVolume, MountPath: tmpDir})
	}
	spec.Volumes, p.container.VolumeMounts = volumes, mounts
}

// needsTmp reports whether the container can write no temporary files otherwise. Tools of developers do.
func (p *pod) needsTmp() bool {
	security := p.container.SecurityContext
	if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem || within(p.Record.Spec.TargetPath, tmpDir) {
		return false
	}
	return !slices.ContainsFunc(p.container.VolumeMounts, func(m corev1.VolumeMount) bool {
		at := path.Clean(m.MountPath)
		return within(at, tmpDir)
	})
}

// group has the volumes belong to a group that all containers have. A group of the workload's stays.
func (p *pod) group() {
	spec := &p.template.Spec
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.SecurityContext.FSGroup == nil {
		spec.SecurityContext.FSGroup = new(sharedGroup)
	}
	if spec.SecurityContext.FSGroupChangePolicy == nil { // else each start walks through all files of the workspace
		spec.SecurityContext.FSGroupChangePolicy = new(corev1.FSGroupChangeOnRootMismatch)
	}
}

// confined is the security context of the containers that a session adds: no capabilities, and nothing to write but volumes.
func confined() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// installer copies the runner into the pod, so that any image works unchanged.
func (p *pod) installer() corev1.Container {
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	security := confined()
	security.RunAsNonRoot, security.RunAsUser = new(true), new(nobody)
	return corev1.Container{
		Name: installName, Image: p.RunnerImage, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/sandbar-runner", "install", binDir},
		Resources:       corev1.ResourceRequirements{Requests: resources, Limits: resources.DeepCopy()},
		VolumeMounts:    []corev1.VolumeMount{{Name: binVolume, MountPath: binDir}},
		SecurityContext: security,
	}
}

// copier copies what the image has at the target path into the workspace, unless that was done. It has the app's image, user and
// resources, and neither its variables nor its volumes. The whole volume is mounted: the workspace appears in it by one rename.
func (p *pod) copier() corev1.Container {
	security := confined()
	if own := p.container.SecurityContext; own != nil {
		security.RunAsUser, security.RunAsGroup, security.RunAsNonRoot, security.SELinuxOptions = own.RunAsUser, own.RunAsGroup, own.RunAsNonRoot, own.SELinuxOptions
	}
	return corev1.Container{
		Name: CopyName, Image: p.container.Image, ImagePullPolicy: p.container.ImagePullPolicy,
		Command:   []string{runnerPath, "copy-up", strings.ReplaceAll(p.Record.Spec.TargetPath, "$", "$$"), volumeDir},
		Resources: corev1.ResourceRequirements{Requests: p.container.Resources.Requests.DeepCopy(), Limits: p.container.Resources.Limits.DeepCopy()},
		VolumeMounts: []corev1.VolumeMount{
			{Name: binVolume, MountPath: binDir, ReadOnly: true}, {Name: workVolume, MountPath: volumeDir},
		},
		SecurityContext: security,
	}
}
