// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package podtemplate

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// ofRuntime builds the pod of a SandboxTemplate with a runtime, and a container that change has changed.
func ofRuntime(t *testing.T, kind string, rules Rules, change func(*corev1.PodSpec)) (*Pod, error) {
	t.Helper()
	spec := sandbarv1alpha1.SandboxTemplateSpec{
		Template: &sandbarv1alpha1.PodTemplate{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "main", Image: "image", Command: []string{"serve", "-v"}, Args: []string{"$(MODE)"}, Env: []corev1.EnvVar{{Name: "MODE", Value: "a"}}},
			{Name: "beside", Image: "image"},
		}}},
		Runtime: &sandbarv1alpha1.SandboxRuntime{Type: kind},
	}
	if change != nil {
		change(&spec.Template.Spec)
	}
	base, err := OwnBase(&spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	rules.PodSecurity = "restricted"
	return Build(&sandbarv1alpha1.PodTemplateSource{TemplateRef: &sandbarv1alpha1.PodTemplateRef{}}, base, nil, rules)
}

func TestTheRunnerStandsBeforeTheCommandOfTheFirstContainer(t *testing.T) {
	pod, err := ofRuntime(t, sandbarv1alpha1.RuntimeRunner, Rules{RunnerImage: "runner:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second := pod.Template.Spec.Containers[0], pod.Template.Spec.Containers[1]
	if diff := cmp.Diff([]string{"/sandbar/bin/sandbar-runner", "supervise", "serve", "-v"}, first.Command); diff != "" || first.Args[0] != "$(MODE)" {
		t.Errorf("%v\n%s", first.Args, diff)
	}
	if len(first.EnvFrom) != 1 || first.EnvFrom[0].SecretRef.Name != placement.BindingSecret || !*first.EnvFrom[0].SecretRef.Optional {
		t.Errorf("its variables come from %+v", first.EnvFrom)
	}
	if len(second.Command) > 0 || len(second.EnvFrom) > 0 || len(second.VolumeMounts) > 0 {
		t.Errorf("another container is changed: %+v", second)
	}
	if !pod.Late() || !slices.Equal(pod.EnvNames(), []string{"MODE"}) {
		t.Errorf("late: %v, its own variables: %v", pod.Late(), pod.EnvNames())
	}
	if install := pod.Template.Spec.InitContainers[0]; install.Image != "runner:1" || install.Resources.Requests.Cpu().Cmp(*install.Resources.Limits.Cpu()) != 0 {
		t.Errorf("the runner comes by %+v", install)
	}
	if first.ReadinessProbe == nil || first.ReadinessProbe.HTTPGet.Path != "/healthz/app" {
		t.Errorf("it is ready by %+v", first.ReadinessProbe)
	}
}

func TestAProbeOfTheTemplatesOwnStays(t *testing.T) {
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	pod, err := ofRuntime(t, sandbarv1alpha1.RuntimeRunner, Rules{RunnerImage: "runner:1"}, func(spec *corev1.PodSpec) { spec.Containers[0].ReadinessProbe = probe })
	if err != nil || pod.Template.Spec.Containers[0].ReadinessProbe.Exec == nil {
		t.Errorf("%v %v", pod, err)
	}
}

// A pod without a runtime is as it was before there were any, unless its instance has variables: then it needs them.
func TestAPodWithoutARuntime(t *testing.T) {
	plain, err := ofRuntime(t, sandbarv1alpha1.RuntimeNone, Rules{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if first := plain.Template.Spec.Containers[0]; plain.Late() || len(first.EnvFrom) > 0 || len(plain.Template.Spec.Volumes) > 0 || first.Command[0] != "serve" {
		t.Errorf("%+v", first)
	}
	bound, err := ofRuntime(t, sandbarv1alpha1.RuntimeNone, Rules{Bound: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if from := bound.Template.Spec.Containers[0].EnvFrom; bound.Late() || len(from) != 1 || from[0].SecretRef.Optional != nil {
		t.Errorf("%+v", from)
	}
}

func TestARuntimeThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		image  string
		says   string
	}{
		"without a command":           {image: "runner:1", says: "spec.containers[0].command", change: func(s *corev1.PodSpec) { s.Containers[0].Command = nil }},
		"without an image":            {says: "spec.images.runner"},
		"a volume of the runner's":    {image: "runner:1", says: "spec.volumes[0].name", change: func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "sandbar-token"}} }},
		"a mount over the runner":     {image: "runner:1", says: "spec.containers[0].volumeMounts[0]", change: mounted("/sandbar/bin")},
		"a mount around the runner":   {image: "runner:1", says: "spec.containers[0].volumeMounts[0]", change: mounted("/sandbar/")},
		"a path that leads there":     {image: "runner:1", says: "spec.containers[0].volumeMounts[0]", change: mounted("/tmp/../sandbar/control")},
		"a setting of the runner's":   {image: "runner:1", says: "spec.containers[0].env[0].name", change: func(s *corev1.PodSpec) { s.Containers[0].Env[0].Name = "SANDBAR_CONTROL_TOKEN" }},
		"the port of the runner":      {image: "runner:1", says: "spec.containers[0].ports[0]", change: func(s *corev1.PodSpec) { s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 7070}} }},
		"an init container like ours": {image: "runner:1", says: "spec.initContainers[0].name", change: func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "sandbar-install-runner"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ofRuntime(t, sandbarv1alpha1.RuntimeRunner, Rules{RunnerImage: test.image}, test.change)
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

func mounted(at string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "mine", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mine", MountPath: at}}
	}
}

// A SandboxTemplate that begins with another one has its runtime, unless it says one itself.
func TestARuntimeIsThatOfTheTemplateBelow(t *testing.T) {
	for said, want := range map[string]string{"": sandbarv1alpha1.RuntimeRunner, sandbarv1alpha1.RuntimeNone: sandbarv1alpha1.RuntimeNone} {
		spec := &sandbarv1alpha1.SandboxTemplateSpec{TemplateRef: &sandbarv1alpha1.PodTemplateRef{Name: "below"}}
		if said != "" {
			spec.Runtime = &sandbarv1alpha1.SandboxRuntime{Type: said}
		}
		base, err := OwnBase(spec, &Base{Runtime: sandbarv1alpha1.RuntimeRunner})
		if err != nil || base.Runtime != want {
			t.Errorf("of one that says %q it is %q, %v", said, base.Runtime, err)
		}
	}
}
