// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsession

import (
	"errors"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// ControlPort is the name of the runner's port of the control Service, and RunnerPort its number, in the pod too.
const (
	ControlPort = "control"
	RunnerPort  = 7070
)

// Input is what a session is rendered from.
type Input struct {
	// Record is that of the session.
	Record Record
	// Component is the name of the workload.
	Component string
	// Copy is what package clone has rendered for the component. It is not changed.
	Copy *clone.Rendered
	// RunnerImage has the runner; empty if the operator has none.
	RunnerImage string
}

// Render makes the objects of a session: its Deployment, the control Service, and the claim of its workspace. The error is a
// *RefusedError if the spec is wrong for the copy.
func Render(in Input) (*clone.Rendered, error) {
	if in.Copy == nil || in.Copy.Deployment == nil || in.Record.UID == "" || in.Copy.Deployment.Labels[placement.LabelInstanceUID] == "" {
		return nil, errors.New("rendering a session needs its UID, and the copy of its workload with the labels of the placement")
	}
	if in.RunnerImage == "" {
		return nil, Refuse(sandbarv1alpha1.DevSessionProviderUnavailable, "the operator has no image of the runner (spec.images.runner of the InfrastructureProvider): ask the operator")
	}
	template := in.Copy.Deployment.Spec.Template.DeepCopy()
	container, err := containerOf(&template.Spec, in.Record.Spec.ContainerName)
	if err != nil {
		return nil, err
	}
	if err := check(&in.Record.Spec, &template.Spec, container); err != nil {
		return nil, err
	}
	p := &pod{Input: in, template: template, container: container}
	if err := p.complete(); err != nil {
		return nil, err
	}
	template.Labels = in.labels(template.Labels)
	return &clone.Rendered{
		Deployment: in.deployment(template), Service: in.service(), Claims: []*corev1.PersistentVolumeClaim{in.claim()},
	}, nil
}

// labels are some of the copy's, without the one by which the copy's pods are chosen, and the session's own.
func (in *Input) labels(of map[string]string) map[string]string {
	labels := maps.Clone(of)
	delete(labels, placement.LabelComponent)
	labels[placement.LabelSessionUID], labels[placement.LabelDevelops] = string(in.Record.UID), in.Component
	return labels
}

// selector chooses the pods of the session.
func (in *Input) selector() map[string]string {
	return Selector(in.Copy.Deployment.Labels[placement.LabelInstanceUID], in.Record.UID)
}

// deployment has one pod, which is replaced and never joined: a workspace is one volume, and edited through one runner.
func (in *Input) deployment(template *corev1.PodTemplateSpec) *appsv1.Deployment {
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: ObjectName(in.Record.Name), Labels: in.labels(in.Copy.Deployment.Labels)},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: in.selector()}, Template: *template,
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		},
	}
}

// service leads to the runner, also while the app is not ready: the log of one that does not come up is wanted most of all.
func (in *Input) service() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: ObjectName(in.Record.Name), Labels: in.labels(in.Copy.Deployment.Labels)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: in.selector(), PublishNotReadyAddresses: true,
			Ports: []corev1.ServicePort{{Name: ControlPort, Protocol: corev1.ProtocolTCP, Port: RunnerPort, TargetPort: intstr.FromInt32(RunnerPort)}},
		},
	}
}

// claim is that of the workspace.
func (in *Input) claim() *corev1.PersistentVolumeClaim {
	storage := &in.Record.Spec.Storage
	modes := storage.AccessModes
	if len(modes) == 0 {
		modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: ClaimName(in.Record.Name), Labels: in.labels(in.Copy.Deployment.Labels)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: Size(storage)}},
		},
	}
}

// Size is how large the volume of a session is to be.
func Size(storage *sandbarv1alpha1.DevSessionStorage) resource.Quantity {
	if storage.Size != nil {
		return *storage.Size
	}
	return resource.MustParse(sandbarv1alpha1.DefaultDevSessionStorage)
}
