// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// SandboxRunners is the resource of the built-in kind SandboxRunner.
var SandboxRunners = sandbarv1alpha1.GroupVersion.WithResource("sandboxrunners")

// Instance is an instance of any kind, as its workspace shows it, with the way to its verbs.
type Instance struct {
	// Object is the object as it was read.
	Object *unstructured.Unstructured
	// Status is what Sandbar adds to the status of every kind.
	Status sandbarv1alpha1.InstanceStatus

	resource schema.GroupVersionResource
	base     *url.URL
	plane    *plane
	// status reads the status again; nil for an instance that was not read.
	status func(context.Context) (*sandbarv1alpha1.InstanceStatus, error)
	// component is the component whose verbs are meant; empty for the instance's own.
	component string
	// port is the port of the pod that is meant; 0 for the one that the verb leads to by itself.
	port uint16
}

// NotServedError means that an instance has no data plane, or not yet.
type NotServedError struct {
	Resource, Namespace, Name string
	Phase                     sandbarv1alpha1.InstancePhase
	// Group is the SandboxGroup that has the workloads of a Sandbox, which has no verbs of its own then; empty for other
	// instances.
	Group string
}

// Error implements error.
func (e *NotServedError) Error() string {
	if e.Group != "" {
		return fmt.Sprintf("%s %s/%s has workloads and no verbs of its own: describe SandboxGroup %s, which has their Services", e.Resource, e.Namespace, e.Name, e.Group)
	}
	phase := e.Phase
	if phase == "" {
		phase = sandbarv1alpha1.InstancePending
	}
	return fmt.Sprintf("%s %s/%s has no data plane yet (phase %s): wait for its condition Ready", e.Resource, e.Namespace, e.Name, phase)
}

// Instance reads an instance and finds its data plane. It fails with an error of
// k8s.io/apimachinery/pkg/api/errors when the workspace refuses, with *NotServedError when the
// status names no data plane yet, with *UntrustedError when it names one that may not get
// the credential, and with *AddressError when it names something else there than this instance.
func (c *Client) Instance(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*Instance, error) {
	obj, err := c.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	status, err := statusOf(obj)
	if err != nil {
		return nil, fmt.Errorf("reading the status of %s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	i := &Instance{Object: obj, Status: *status, resource: resource}
	i.status = func(ctx context.Context) (*sandbarv1alpha1.InstanceStatus, error) {
		now, err := c.objects.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return statusOf(now)
	}
	if i.Status.DataPlane == nil || i.Status.DataPlane.URL == "" {
		group, _, _ := unstructured.NestedString(obj.Object, "status", "underlyingRefs", "sandboxGroupName")
		return nil, &NotServedError{Resource: resource.Resource, Namespace: namespace, Name: name, Phase: i.Status.Phase, Group: group}
	}
	origin, err := originOf(i.Status.DataPlane.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the data plane of %s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	if i.plane = c.planes[origin]; i.plane == nil {
		return nil, &UntrustedError{Origin: origin}
	}
	if i.base, err = baseOf(obj.GetAnnotations()[annotationCluster], resource.Resource, namespace, name, i.Status.DataPlane.URL); err != nil {
		return nil, err
	}
	return i, nil
}

// statusOf reads what Sandbar adds to the status of an object.
func statusOf(obj *unstructured.Unstructured) (*sandbarv1alpha1.InstanceStatus, error) {
	status := &sandbarv1alpha1.InstanceStatus{}
	if fields, ok := obj.Object["status"].(map[string]any); ok {
		return status, runtime.DefaultUnstructuredConverter.FromUnstructured(fields, status)
	}
	return status, nil
}

// Resource is the resource of the instance's kind.
func (i *Instance) Resource() schema.GroupVersionResource { return i.resource }

// Component is the instance with the verbs of one of its components.
func (i *Instance) Component(name string) *Instance {
	of := *i
	of.component = name
	return &of
}

// Port is the instance, or the component, with the verbs of one port of its pod, where the kind
// lets its callers choose one: proxy and proxy-url of a Sandbox.
func (i *Instance) Port(number uint16) *Instance {
	of := *i
	of.port = number
	return &of
}

// ID names the instance, or the component, for good: another one of the same name has another.
func (i *Instance) ID() string {
	id := string(i.Object.GetUID())
	if i.component != "" {
		id += "/" + i.component
	}
	return id
}

// Has tells whether the instance, or the component, has a verb.
func (i *Instance) Has(verb string) bool {
	if i.component != "" {
		verb = "components/" + i.component + "/" + verb
	}
	return slices.Contains(i.Status.DataPlane.Verbs, verb)
}

// URL is the address of a verb. tail is what follows it, unescaped; query may be nil.
func (i *Instance) URL(verb, tail string, query url.Values) *url.URL {
	u := i.base
	if i.component != "" {
		u = u.JoinPath("components", i.component)
	}
	if i.port != 0 {
		u = u.JoinPath("ports", strconv.Itoa(int(i.port)))
	}
	u = u.JoinPath(verb)
	if tail != "" {
		// Not JoinPath, which cleans: what a tail means is for the verb to say.
		u.Path += "/" + tail
		u.RawPath = ""
	}
	u.RawQuery = query.Encode()
	return u
}
