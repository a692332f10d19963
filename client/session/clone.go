// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

// CloneTexts say in words of a command line which workloads of a Baseline a Sandbox has copies of, and what is different.
type CloneTexts struct {
	// Workloads are [NAME=]BASELINE/[NAMESPACE/]WORKLOAD, all of one Baseline. NAME is that of the copy, by default the
	// workload's; NAMESPACE is one of the Baseline's aliases.
	Workloads []string
	// Images are [NAME/]CONTAINER=IMAGE, and Env [NAME/]CONTAINER:VARIABLE=VALUE. NAME is that of a copy, and can be left out
	// where only one has a container of that name.
	Images, Env []string
	// Replicas are NAME=NUMBER.
	Replicas []string
	// Route says which requests are led to the copies.
	Route CloneRoute
}

// Clone is what CloneTexts say.
type Clone struct {
	// Baseline is the name of the Baseline.
	Baseline string

	workloads []clonedWorkload
	images    []containerSetting
	env       []containerSetting
	replicas  map[string]int32
	route     *clonedRoute // nil for no routing
}

type clonedWorkload struct{ name, namespace, source string }

// containerSetting is a value for a container; workload is empty where it is not named.
type containerSetting struct{ text, workload, container, name, value string }

// maxWorkloadName is how long the name of a copy may be.
const maxWorkloadName = 30

// Parse reads the words. Its errors say which one is wrong, and how it is written.
func (t CloneTexts) Parse() (*Clone, error) {
	c, err := t.parseCopies()
	if err != nil {
		return nil, err
	}
	c.route, err = t.Route.parse(c)
	return c, err
}

func (t CloneTexts) parseCopies() (*Clone, error) {
	c := &Clone{replicas: map[string]int32{}}
	if len(t.Workloads) == 0 {
		return nil, errors.New("name the workloads to copy as BASELINE/WORKLOAD; sandbar baselines lists them")
	}
	for _, text := range t.Workloads {
		if err := c.addWorkload(text); err != nil {
			return nil, err
		}
	}
	for _, text := range t.Images {
		key, image, ok := strings.Cut(text, "=")
		if !ok || key == "" || image == "" {
			return nil, fmt.Errorf("image %q: write CONTAINER=IMAGE, or WORKLOAD/CONTAINER=IMAGE", text)
		}
		c.images = append(c.images, settingOf(key, "", image))
	}
	for _, text := range t.Env {
		key, pair, ok := strings.Cut(text, ":")
		name, value, hasValue := strings.Cut(pair, "=")
		if !ok || !hasValue || key == "" || name == "" {
			return nil, errors.New("a variable is written CONTAINER:NAME=VALUE, or WORKLOAD/CONTAINER:NAME=VALUE") // not what was given: it may be a secret
		}
		c.env = append(c.env, settingOf(key, name, value))
	}
	for _, text := range t.Replicas {
		name, number, ok := strings.Cut(text, "=")
		n, err := strconv.ParseInt(number, 10, 32)
		if !ok || err != nil || n < 0 {
			return nil, fmt.Errorf("replicas %q: write WORKLOAD=NUMBER, such as %s=1", text, c.workloads[0].name)
		}
		if !slices.ContainsFunc(c.workloads, func(w clonedWorkload) bool { return w.name == name }) {
			return nil, fmt.Errorf("replicas %q: there is no workload %s; there is %s", text, name, c.names())
		}
		c.replicas[name] = int32(n)
	}
	return c, nil
}

func settingOf(key, name, value string) containerSetting {
	s := containerSetting{text: key, container: key, name: name, value: value}
	if workload, container, ok := strings.Cut(key, "/"); ok {
		s.workload, s.container = workload, container
	}
	return s
}

func (c *Clone) addWorkload(text string) error {
	name, source, named := strings.Cut(text, "=")
	if !named {
		source = text
	}
	parts := strings.Split(source, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return fmt.Errorf("%q: write BASELINE/WORKLOAD, or BASELINE/NAMESPACE/WORKLOAD", text)
	}
	w := clonedWorkload{name: name, source: parts[len(parts)-1]}
	if len(parts) == 3 {
		w.namespace = parts[1]
	}
	if !named {
		w.name = w.source
	}
	switch {
	case c.Baseline != "" && c.Baseline != parts[0]:
		return fmt.Errorf("%q is of the Baseline %s, and the ones before are of %s: a Sandbox has copies of one Baseline", text, parts[0], c.Baseline)
	case len(w.name) > maxWorkloadName || len(validation.IsDNS1123Label(w.name)) > 0:
		return fmt.Errorf("%q: the copy cannot be called %q; put a name of at most %d of a-z, 0-9 and - before it: NAME=%s", text, w.name, maxWorkloadName, source)
	case slices.ContainsFunc(c.workloads, func(other clonedWorkload) bool { return other.name == w.name }):
		return fmt.Errorf("%q: there is a copy called %s already; put another name before it: NAME=%s", text, w.name, source)
	}
	c.Baseline = parts[0]
	c.workloads = append(c.workloads, w)
	return nil
}

func (c *Clone) names() string {
	names := make([]string, len(c.workloads))
	for i, w := range c.workloads {
		names[i] = w.name
	}
	return strings.Join(names, ", ")
}

// Spec is the spec of a Sandbox, with workloads of a Baseline as its catalogue shows them.
func (c *Clone) Spec(b client.Baseline) (*sandbarv1alpha1.SandboxWorkloadsSpec, error) {
	spec := &sandbarv1alpha1.SandboxWorkloadsSpec{BaselineRef: &sandbarv1alpha1.BaselineRef{Name: b.Name}}
	containers := map[string][]string{} // by the names of the copies
	for _, w := range c.workloads {
		found, err := w.in(b)
		if err != nil {
			return nil, err
		}
		for _, container := range found.Containers {
			containers[w.name] = append(containers[w.name], container.Name)
		}
		copied := sandbarv1alpha1.SandboxWorkload{Name: w.name, Type: sandbarv1alpha1.WorkloadInherits}
		copied.Inherit.SourceRef = sandbarv1alpha1.WorkloadReference{
			APIVersion: found.APIVersion, Kind: sandbarv1alpha1.BaselineWorkloadKind(found.Kind), Name: found.Name, Namespace: found.Namespace,
		}
		if n, set := c.replicas[w.name]; set {
			overridesOf(&copied).Replicas = &n
		}
		spec.Workloads = append(spec.Workloads, copied)
	}
	for _, setting := range c.images {
		container, err := setting.containerIn(spec, containers)
		if err != nil {
			return nil, err
		}
		container.Image = setting.value
	}
	for _, setting := range c.env {
		container, err := setting.containerIn(spec, containers)
		if err != nil {
			return nil, err
		}
		container.Env = append(container.Env, corev1.EnvVar{Name: setting.name, Value: setting.value})
	}
	if c.route != nil {
		var err error
		if spec.Routing, err = c.route.in(b); err != nil {
			return nil, err
		}
	}
	return spec, nil
}

// in finds a workload in a Baseline.
func (w clonedWorkload) in(b client.Baseline) (found client.BaselineWorkload, err error) {
	var all, names []string
	n := 0
	for _, one := range b.Workloads {
		all = append(all, one.Name)
		if one.Name != w.source || w.namespace != "" && w.namespace != one.Namespace {
			continue
		}
		n++
		found = one
		names = append(names, fmt.Sprintf("%s %s/%s", one.Kind, one.Namespace, one.Name))
	}
	switch {
	case n == 0 && len(all) == 0:
		return found, fmt.Errorf("the Baseline %s shows no workloads now; try again in a minute, and ask the operator if sandbar baselines %[1]s says that it is not ready", b.Name)
	case n == 0 && w.namespace != "":
		return found, fmt.Errorf("the Baseline %s has no workload %s in the namespace %s; sandbar baselines %[1]s lists what it has", b.Name, w.source, w.namespace)
	case n == 0:
		return found, fmt.Errorf("the Baseline %s has no workload %s; it has %s", b.Name, w.source, strings.Join(slices.Compact(all), ", "))
	case n > 1 && w.namespace == "":
		return found, fmt.Errorf("the Baseline %s has several workloads %s: %s; write %[1]s/NAMESPACE/%[2]s", b.Name, w.source, strings.Join(names, ", "))
	case n > 1:
		return found, fmt.Errorf("the Baseline %s has several workloads %s: %s; print the Sandbox of another one with -o yaml, and write the kind there", b.Name, w.source, strings.Join(names, ", "))
	}
	return found, nil
}

func overridesOf(w *sandbarv1alpha1.SandboxWorkload) *sandbarv1alpha1.WorkloadOverrides {
	if w.Inherit.Overrides == nil {
		w.Inherit.Overrides = &sandbarv1alpha1.WorkloadOverrides{}
	}
	return w.Inherit.Overrides
}

// containerIn is the override of the container that a setting is for. containers are those of each copy; a catalogue that is too
// large lists none of a workload, and then a workload that is named has each.
func (s containerSetting) containerIn(spec *sandbarv1alpha1.SandboxWorkloadsSpec, containers map[string][]string) (*sandbarv1alpha1.ContainerOverride, error) {
	var in []*sandbarv1alpha1.SandboxWorkload
	var has []string
	for i := range spec.Workloads {
		w := &spec.Workloads[i]
		unknown := s.workload != "" && len(containers[w.Name]) == 0
		if (s.workload == "" || s.workload == w.Name) && (unknown || slices.Contains(containers[w.Name], s.container)) {
			in = append(in, w)
		}
		has = append(has, fmt.Sprintf("%s has %s", w.Name, strings.Join(containers[w.Name], ", ")))
	}
	switch {
	case len(in) == 0:
		return nil, fmt.Errorf("no workload has the container %s: %s", s.text, strings.Join(has, "; "))
	case len(in) > 1:
		return nil, fmt.Errorf("several workloads have a container %s: write %s/%[1]s", s.container, in[0].Name)
	}
	overrides := overridesOf(in[0])
	at := slices.IndexFunc(overrides.Containers, func(c sandbarv1alpha1.ContainerOverride) bool { return c.Name == s.container })
	if at < 0 {
		at = len(overrides.Containers)
		overrides.Containers = append(overrides.Containers, sandbarv1alpha1.ContainerOverride{Name: s.container})
	}
	return &overrides.Containers[at], nil
}
