// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/pkg/route"
)

// fieldOwner owns what is written on the runtime cluster.
const fieldOwner = "sandbar"

// What is read and written on the runtime cluster; install/rbac/controllers gives the rights to it.
var (
	httpRoutes = route.HTTPRouteGVK.GroupVersion().WithResource("httproutes")
	gateways   = route.HTTPRouteGVK.GroupVersion().WithResource("gateways")
	services   = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// errNotOurs means that somebody else, or another SandboxRoute, has an HTTPRoute of the name.
var errNotOurs = errors.New("there is another one of this name in the placement")

// cluster reads and writes the runtime cluster, live.
type cluster struct{ client dynamic.Interface }

// routesOf lists the HTTPRoutes of a SandboxRoute, wherever they are.
func (c cluster) routesOf(ctx context.Context, uid types.UID) ([]unstructured.Unstructured, error) {
	list, err := c.client.Resource(httpRoutes).List(ctx, metav1.ListOptions{LabelSelector: placement.LabelRouteUID + "=" + string(uid)})
	if apierrors.IsNotFound(err) {
		return nil, nil // the kind is not served
	}
	if err != nil {
		return nil, fmt.Errorf("listing the HTTPRoutes: %w", err)
	}
	return list.Items, nil
}

// apply writes an HTTPRoute of a SandboxRoute, also over what somebody else has changed in it, and returns it as it is then. own
// says that it is there. Without it the error is errNotOurs if there is one of its name, of another SandboxRoute or of somebody else.
func (c cluster) apply(ctx context.Context, wanted *unstructured.Unstructured, own bool) (*unstructured.Unstructured, error) {
	in, name := c.client.Resource(httpRoutes).Namespace(wanted.GetNamespace()), wanted.GetName()
	if !own {
		switch _, err := in.Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			return nil, fmt.Errorf("HTTPRoute %s: %w", name, errNotOurs)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading HTTPRoute %s: %w", name, err)
		}
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("encoding HTTPRoute %s: %w", name, err)
	}
	written, err := in.Patch(ctx, name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldOwner, Force: new(true)})
	if err != nil {
		return nil, fmt.Errorf("writing HTTPRoute %s: %w", name, err)
	}
	return written, nil
}

// remove deletes an HTTPRoute that was read, and no later one of its name.
func (c cluster) remove(ctx context.Context, namespace, name string, uid types.UID) error {
	err := c.client.Resource(httpRoutes).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting HTTPRoute %s/%s: %w", namespace, name, err)
	}
	return nil
}

// service reads a Service; nil if there is none.
func (c cluster) service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	obj, err := c.client.Resource(services).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", name, err)
	}
	service := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, service); err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", name, err)
	}
	return service, nil
}

// gateway is what is read of a Gateway.
type gateway struct {
	namespace, name string
	listeners       []route.Listener
}

// gateway reads a Gateway; nil if there is none.
func (c cluster) gateway(ctx context.Context, namespace, name string) (*gateway, error) {
	obj, err := c.client.Resource(gateways).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Gateway %s/%s: %w", namespace, name, err)
	}
	return &gateway{namespace: namespace, name: name, listeners: listenersOf(obj)}, nil
}

// listenersOf are the listeners of a Gateway; none if they are not as the Gateway API has them.
func listenersOf(obj *unstructured.Unstructured) []route.Listener {
	var read struct {
		Listeners []route.Listener `json:"listeners"`
	}
	fields, _ := obj.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &read); err != nil {
		return nil
	}
	return read.Listeners
}
