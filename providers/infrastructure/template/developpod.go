// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/controlproof"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/expression"
)

// What development adds to a pod. The names begin with contract.OwnPrefix, which no graph's own
// may.
const (
	controlPort   = "sandbar-control"
	binVolume     = "sandbar-bin"
	controlVolume = "sandbar-token"
	tmpVolume     = "sandbar-tmp"
	installName   = "sandbar-install-runner"

	binDir     = "/sandbar/bin"
	controlDir = "/sandbar/control"
	volumeDir  = "/sandbar/volume"
	tmpDir     = "/tmp"
	runnerPath = binDir + "/sandbar-runner"

	// treePath is the directory of the volume that has the workspace. What the runner writes lies beside it, where
	// it wakes no watcher of the app (runner/workspace's TreeName).
	treePath = ".sandbar-workspace"

	defaultWorkingDir = "/workspace"
	// sharedGroup owns the volumes in development when the pod names no group itself: the
	// runner is not root and must be able to write to the workspace.
	sharedGroup = 1000
	// secretMode lets root and the pod's group read the control token.
	secretMode = 0o440
)

// podPatch makes the pod of one workload run in both modes.
type podPatch struct {
	name      string
	component *sandbarv1alpha1.DevelopmentComponent
	workload  *contract.Workload
	platform  string // id of the platform's ConfigMap
}

// apply changes the workload in place. Each field that differs becomes one expression of both
// values; a field that the graph does not have is null, that is absent, in production.
func (p *podPatch) apply() error {
	container, pod := p.workload.Container, p.workload.Pod
	env, err := p.env()
	if err != nil {
		return err
	}
	resources := container["resources"]
	if p.component.Resources != nil {
		if resources, err = runtime.DefaultUnstructuredConverter.ToUnstructured(p.component.Resources); err != nil {
			return fmt.Errorf("resources: %w", err)
		}
	}
	mounts, volumes := p.volumes()
	e := &either{}
	e.set(container, "image", expression.Raw(p.platform+".data."+p.component.Image+"Image"))
	e.set(container, "command", []any{runnerPath})
	e.set(container, "args", nil)
	e.set(container, "workingDir", p.workingDir())
	e.set(container, "env", env)
	e.set(container, "ports", append(listOf(container["ports"]), map[string]any{"name": controlPort, "containerPort": contract.RunnerPort}))
	e.set(container, "volumeMounts", mounts)
	e.set(container, "resources", resources)
	// Not ready while the app does not stay up; the control Service publishes what is not ready.
	e.set(container, "readinessProbe", map[string]any{
		"httpGet":       map[string]any{"path": "/healthz/app", "port": controlPort},
		"periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 3,
	})
	e.set(container, "livenessProbe", nil)
	e.set(container, "startupProbe", nil)
	e.set(container, "lifecycle", map[string]any{"postStart": map[string]any{"exec": map[string]any{"command": []any{runnerPath, "wait"}}}})
	e.set(pod, "initContainers", append(listOf(pod["initContainers"]), p.installer()))
	e.set(pod, "volumes", volumes)
	// One that is an expression as a whole stays its author's business.
	if _, isObject := pod["securityContext"].(map[string]any); isObject || pod["securityContext"] == nil {
		if security := child(pod, "securityContext"); security["fsGroup"] == nil {
			e.set(security, "fsGroup", sharedGroup)
		}
	}
	p.one(e)
	return e.err
}

// one keeps it to one pod at a time: a workspace is one volume, and the files in it are edited
// through one runner.
func (p *podPatch) one(e *either) {
	spec := p.workload.Spec
	switch replicas := spec["replicas"].(type) {
	case float64:
		e.set(spec, "replicas", int(min(replicas, 1)))
	case string:
		text, err := expression.Of(replicas)
		e.fail(err)
		// The author's expression is what says when there are none: in a suspended instance.
		e.set(spec, "replicas", expression.Raw(text+" > 0 ? 1 : 0"))
	}
	strategy, _ := spec["strategy"].(map[string]any)
	if p.workload.Kind != "Deployment" || strategy["type"] == string(appsv1.RecreateDeploymentStrategyType) {
		return
	}
	// Not Recreate: going over to it, the API server would find the defaults of the other
	// type still there, and refuse.
	e.set(spec, "strategy", map[string]any{
		"type": string(appsv1.RollingUpdateDeploymentStrategyType), "rollingUpdate": map[string]any{"maxSurge": 0, "maxUnavailable": 1},
	})
}

func (p *podPatch) workingDir() string { return cmp.Or(p.component.WorkingDir, defaultWorkingDir) }

// env is the container's own environment and the runner's configuration.
func (p *podPatch) env() ([]any, error) {
	rules, err := reloadRules(p.component)
	if err != nil {
		return nil, fmt.Errorf("reload: %w", err)
	}
	env := listOf(p.workload.Container["env"])
	add := func(name string, value any) { env = append(env, map[string]any{"name": name, "value": value}) }
	if !slices.ContainsFunc(env, isNamed("HOME")) {
		add("HOME", tmpDir)
	}
	add("SANDBAR_WORKDIR", p.workingDir())
	add("SANDBAR_VOLUME", volumeDir)
	add("SANDBAR_START_COMMAND", verbatim(p.component.StartCommand))
	// A file and not a variable: what is in the environment, the process inherits.
	add("SANDBAR_CONTROL_TOKEN_FILE", path.Join(controlDir, placement.ControlTokenKey))
	// By this the data plane sees that it never has to send the token itself.
	env = append(env, map[string]any{
		"name":      controlproof.PodUIDVariable,
		"valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.uid"}},
	})
	if rules != "" {
		add("SANDBAR_RELOAD_RULES", verbatim(rules))
	}
	if p.component.Port != "" {
		number, _ := p.workload.Port(p.component.Port)
		text, err := expression.Of(number)
		if err != nil {
			return nil, fmt.Errorf("port: %w", err)
		}
		add("SANDBAR_PORT", expression.Raw("string("+text+")"))
	}
	return env, nil
}

func (p *podPatch) volumes() (mounts, volumes []any) {
	mounts, volumes = listOf(p.workload.Container["volumeMounts"]), listOf(p.workload.Pod["volumes"])
	add := func(name, at string, readOnly bool, source string, volume map[string]any) {
		mount := map[string]any{"name": name, "mountPath": at}
		if readOnly {
			mount["readOnly"] = true
		}
		mounts = append(mounts, mount)
		volumes = append(volumes, map[string]any{"name": name, source: volume})
	}
	hasTmp := slices.ContainsFunc(mounts, func(m any) bool {
		mount, _ := m.(map[string]any)
		return mount["mountPath"] == tmpDir
	})
	add(binVolume, binDir, true, "emptyDir", map[string]any{"sizeLimit": "64Mi"})
	add(controlVolume, controlDir, true, "secret", map[string]any{"secretName": placement.ControlSecret, "defaultMode": secretMode})
	add(workspaceName(p.name), volumeDir, false, "persistentVolumeClaim", map[string]any{"claimName": workspaceName(p.name)})
	mounts = append(mounts, map[string]any{"name": workspaceName(p.name), "mountPath": p.workingDir(), "subPath": treePath})
	if !hasTmp {
		add(tmpVolume, tmpDir, false, "emptyDir", map[string]any{"sizeLimit": "1Gi"})
	}
	return mounts, volumes
}

// installer copies the runner into the pod, so that any toolchain's image works unchanged.
func (p *podPatch) installer() any {
	return map[string]any{
		"name": installName, "image": expression.Raw(p.platform + ".data." + runnerImage + "Image"), "imagePullPolicy": "IfNotPresent",
		"command": []any{"/sandbar-runner", "install", binDir},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
		"resources": map[string]any{
			"requests": map[string]any{"cpu": "10m", "memory": "32Mi"},
			"limits":   map[string]any{"cpu": "1", "memory": "64Mi"},
		},
		"volumeMounts": []any{map[string]any{"name": binVolume, "mountPath": binDir}},
	}
}

// either sets fields that differ between the modes, and keeps the first error.
type either struct{ err error }

// set makes a field have the value while the instance is in development mode, and what it has
// now otherwise.
func (e *either) set(object map[string]any, field string, development any) {
	dev, err := expression.Of(development)
	e.fail(err)
	production, err := expression.Of(object[field])
	e.fail(err)
	object[field] = expression.Wrap(inDevelopment + " ? dyn(" + dev + ") : dyn(" + production + ")")
}

func (e *either) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// verbatim writes a text that shall reach an environment variable as it is, past kro and past
// Kubernetes, which expands $(NAME) in values and makes $$ one dollar sign.
func verbatim(text string) expression.Raw {
	return expression.Raw(expression.Literal(strings.ReplaceAll(text, "$", "$$")))
}

// listOf is a copy of a list of the graph, with room; empty if there is none.
func listOf(value any) []any {
	list, _ := value.([]any)
	return slices.Clone(list)
}

func isNamed(name string) func(any) bool {
	return func(item any) bool {
		object, _ := item.(map[string]any)
		return object["name"] == name
	}
}
