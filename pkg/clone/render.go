// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Input is what a copy is made of.
type Input struct {
	// Group is the name of the SandboxGroup.
	Group string
	// Component is the tenant's.
	Component *sandbarv1alpha1.SandboxGroupComponent
	// Snapshot is what was frozen of the component's workload.
	Snapshot *Snapshot
	// Rules are the operator's.
	Rules Rules
	// Labels are those of the placement (placement.ID.Labels). They are on everything and win.
	Labels map[string]string
	// SandboxID is that of the group (NewID).
	SandboxID string
	// Searches are the namespaces of the Baseline on the runtime cluster, in which the pod finds Services by their short
	// names. The first one wins.
	Searches []string
}

// Rules are the operator's words about copies.
type Rules struct {
	// Baseline is its name, for messages.
	Baseline   string
	Images     sandbarv1alpha1.BaselineImages
	References sandbarv1alpha1.BaselineReferences
	Limits     sandbarv1alpha1.BaselineLimits
	// LabelPrefixes and AnnotationPrefixes are what keys with a domain may begin with (spec.instanceMetadata of the
	// InfrastructureProvider).
	LabelPrefixes, AnnotationPrefixes []string
}

// Rendered is a copy. Its objects have names and labels, and no namespace: they are for the placement.
type Rendered struct {
	Deployment *appsv1.Deployment
	Service    *corev1.Service
	// Claims are empty volumes that the Deployment mounts.
	Claims []*corev1.PersistentVolumeClaim
	// ConfigMaps and Secrets are those that have to be copied from the workload's namespace, sorted by name.
	ConfigMaps, Secrets []Needed
	// ServiceAccount is the name of the ServiceAccount that has to be created, without rights; empty for none, and for
	// default, which each namespace has.
	ServiceAccount string
	// Notes tell in what the copy differs from the workload.
	Notes []Note
}

// Needed is an object of the workload's namespace that a copy refers to. It is copied under its own name.
type Needed struct {
	Name string `json:"name"`
	// Optional: the pod starts without it, so that it may be missing.
	Optional bool `json:"optional,omitempty"`
}

// DeploymentName is the name of the Deployment of a component of a group.
func DeploymentName(group, component string) string { return group + "-" + component + "-sbx" }

// ServiceName is the name of its Service.
func ServiceName(group, component string) string { return group + "-" + component + "-svc" }

// rendering is a copy that is being made.
type rendering struct {
	Input

	// template is the pod template as it is now.
	template corev1.PodTemplateSpec
	// claims are the volumes that may be mounted, by the names of their PersistentVolumeClaims in the placement.
	claims map[string]corev1.PersistentVolumeClaimSpec
	notes  notes
}

// Render makes the copy. The order is part of the contract: the snapshot, what stands for its references, the
// operator's rules, the overrides, the patch, Sandbar's labels. All that is refused is looked for after the patch.
func Render(in Input) (*Rendered, error) {
	if in.Component == nil || in.Snapshot == nil || in.SandboxID == "" || in.Labels[placement.LabelInstanceUID] == "" {
		return nil, errors.New("rendering needs a component, a snapshot, the ID of the sandbox and the labels of the placement")
	}
	r := &rendering{Input: in, template: *in.Snapshot.Template.DeepCopy(), claims: map[string]corev1.PersistentVolumeClaimSpec{}}
	if err := r.checkNames(); err != nil {
		return nil, err
	}
	r.replaceVolumes()
	r.limitIdentity()
	source := r.template.DeepCopy()

	if err := r.override(); err != nil {
		return nil, err
	}
	if err := r.patch(); err != nil {
		return nil, err
	}
	r.keepNodes(source)
	if err := r.checkAll(source); err != nil {
		return nil, err
	}
	shared, err := r.settleReferences()
	if err != nil {
		return nil, err
	}
	r.search()
	return r.result(shared)
}

// checkAll refuses what the copy of a workload cannot have. source is the workload's own template.
func (r *rendering) checkAll(source *corev1.PodTemplateSpec) error {
	for _, check := range []func(*corev1.PodTemplateSpec) error{r.checkHost, r.checkFields, r.checkContainerPorts, r.checkNodes, r.checkVolumes, r.checkImages, r.checkTemplateMetadata} {
		if err := check(source); err != nil {
			return err
		}
	}
	return nil
}

// checkNames refuses names that the objects of the copy cannot have.
func (r *rendering) checkNames() error {
	name := r.Component.Name
	if len(validation.IsDNS1123Label(name)) > 0 {
		return refuse(InvalidSpec, "name: %q is not a DNS label; use at most 30 of a-z, 0-9 and -", name)
	}
	service := ServiceName(r.Group, name)
	if most := validation.DNS1035LabelMaxLength; len(service) > most {
		return refuse(InvalidSpec, "name: the Service %s would have %d characters, and %d are the most; shorten the name of the component, or create the group under a shorter one", service, len(service), most)
	}
	if len(validation.IsDNS1035Label(service)) > 0 {
		return refuse(InvalidSpec, "name: %s cannot be the name of a Service; create the group under a name that begins with a letter and has only a-z, 0-9 and -", service)
	}
	return nil
}

// labels are Sandbar's own, which win over all others.
func (r *rendering) labels() map[string]string {
	labels := maps.Clone(r.Labels)
	labels[placement.LabelSandboxID] = r.SandboxID
	labels[placement.LabelComponent] = r.Component.Name
	return labels
}

// selector chooses the pods of this component and placement. It has none of the tenant's labels: with them, a tenant
// would choose pods that are not the component's.
func (r *rendering) selector() map[string]string {
	return map[string]string{
		placement.LabelInstanceUID: r.Labels[placement.LabelInstanceUID],
		placement.LabelComponent:   r.Component.Name,
	}
}

// labelled returns labels with Sandbar's own over them.
func (r *rendering) labelled(labels map[string]string) map[string]string {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, r.labels())
	return all
}

// overrides are the tenant's; empty if there are none.
func (r *rendering) overrides() *sandbarv1alpha1.WorkloadOverrides {
	if r.Component.Overrides == nil {
		return &sandbarv1alpha1.WorkloadOverrides{}
	}
	return r.Component.Overrides
}

func (r *rendering) result(shared *shared) (*Rendered, error) {
	replicas, err := r.replicas()
	if err != nil {
		return nil, err
	}
	deployment, err := r.deployment(replicas)
	if err != nil {
		return nil, err
	}
	service, err := r.service()
	if err != nil {
		return nil, err
	}
	claims := r.mountedClaims()
	deployment.Spec.Strategy = strategyFor(claims)
	if r.Snapshot.Source.Kind == kindStatefulSet {
		r.notes.add(StatefulIdentityLost, "%s of %s is a Deployment: its pods have neither ordinals nor names of their own, and its replicas share their volumes", deployment.Name, r.Snapshot.Source)
	}
	return &Rendered{
		Deployment: deployment, Service: service, Claims: claims,
		ConfigMaps: shared.configMaps, Secrets: shared.secrets,
		ServiceAccount: r.account(), Notes: r.notes,
	}, nil
}

// deployment is made of the template as it is now.
func (r *rendering) deployment(replicas int32) (*appsv1.Deployment, error) {
	o := r.overrides()
	for _, m := range []metadata{
		{field: "overrides.deploymentLabels", set: o.DeploymentLabels, allowed: r.labelAllowed},
		{field: "overrides.deploymentAnnotations", set: o.DeploymentAnnotations, allowed: r.annotationAllowed, annotations: true},
	} {
		if err := m.check(); err != nil {
			return nil, err
		}
	}
	template := r.template
	template.Labels = r.labelled(template.Labels)
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: kindDeployment},
		ObjectMeta: metav1.ObjectMeta{
			Name:   DeploymentName(r.Group, r.Component.Name),
			Labels: r.labelled(o.DeploymentLabels), Annotations: maps.Clone(o.DeploymentAnnotations),
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: r.selector()},
			Template: template,
		},
	}, nil
}

// operator is the end of a message: which list the operator would have to change.
func (r *rendering) operator(field string) string {
	return strings.TrimSpace(fmt.Sprintf("ask the operator to add it to %s of Baseline %s", field, r.Rules.Baseline))
}
