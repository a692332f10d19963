// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// secretToken is a control token. It prints as nothing; behind a pointer, because package fmt
// does not call the methods of values in unexported fields.
type secretToken struct{ value *string }

func newSecretToken(value string) secretToken { return secretToken{&value} }

// reveal returns the token; empty if there is none.
func (t secretToken) reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

func (secretToken) String() string       { return "[redacted]" }
func (secretToken) GoString() string     { return "[redacted]" }
func (secretToken) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// target is where a request goes: a port of a Service, or a port or a subresource of a Pod. Exactly
// one of service and pod is set. All of it lies in the instance's placement.
type target struct {
	namespace string

	service string
	// port is the name of the Service's port, or the number of the Pod's.
	port string
	// upstreamPath begins with a slash; the tail cannot leave it.
	upstreamPath string
	// token is the control token to send; empty for none.
	token secretToken

	// pod is shared: never write to it.
	pod *corev1.Pod
	// subresource is what of the Pod is meant; see package contract.
	subresource string
	// container is the one that the contract names; callers cannot choose another. Empty if it
	// names none.
	container string

	// at is the placement, whose phase a caller is told when no pod of the Service is ready.
	at *place

	// proxy is set for the verb that leads to what the tenant runs. It never gets the control
	// token: the app behind it is the tenant's, and with the token it could drive the runner.
	proxy   bool
	stream  bool
	upgrade bool
}

// resolve follows an endpoint's reference within the placement. Every object that it meets must
// lie in the computed namespace and carry the instance's UID, whatever the status says: a graph
// can be wrong, and a status can be made to lie.
func (p *placer) resolve(at *place, r route, e sandbarv1alpha1.Endpoint) (*target, *refusal) {
	t := &target{
		namespace: at.id.Namespace(), proxy: r.verb == contract.ProxyVerb,
		upstreamPath: e.UpstreamPath, stream: e.Stream, upgrade: e.Upgrade, port: e.Port,
		at: at,
	}
	if t.upstreamPath == "" {
		t.upstreamPath = "/"
	}
	if e.PodRef != "" {
		return p.resolvePod(t, r, e)
	}
	if contract.OnlyInDevelopment(e.ServiceRef) && !contract.InDevelopment(at.instance.Object) {
		return nil, notInDevelopment()
	}
	service, refused := follow[corev1.Service](at, e.ServiceRef, p.cache.services.GetStore().GetByKey)
	if refused != nil {
		return nil, refused
	}
	t.service = service.Name
	tokenRef := at.kind.dataPlane().TokenSecretRef
	if tokenRef == "" || t.proxy {
		return t, nil
	}
	secret, refused := follow[corev1.Secret](at, tokenRef, p.cache.secrets.GetStore().GetByKey)
	if refused != nil {
		return nil, refused
	}
	t.token = newSecretToken(string(secret.Data[placement.ControlTokenKey]))
	if t.token.reveal() == "" {
		return nil, notReady(notReadyMessage(at), nil)
	}
	return t, nil
}

// follow reads the object that a path in the runtime instance's status names.
func follow[T any, P interface {
	*T
	metav1.Object
}](at *place, path string, get func(string) (any, bool, error)) (P, *refusal) {
	ref, err := contract.Resolve(at.instance.Object, path)
	if errors.Is(err, contract.ErrNotReady) {
		return nil, notReady(notReadyMessage(at), err)
	}
	if err != nil {
		return nil, refusedReference(err)
	}
	if ref.Namespace != at.id.Namespace() {
		return nil, refusedReference(fmt.Errorf("following %s: %w: it points to another namespace", path, placement.ErrForeign))
	}
	obj, found, err := get(ref.Namespace + "/" + ref.Name)
	if err != nil || !found {
		// Not there yet, or without the label of a placement: informers hold no other.
		return nil, notReady(notReadyMessage(at), err)
	}
	typed, ok := obj.(P)
	if !ok {
		return nil, refusedReference(fmt.Errorf("following %s: %w", path, placement.ErrForeign))
	}
	if err := at.id.Check(typed); err != nil {
		return nil, refusedReference(fmt.Errorf("following %s: %w", path, err))
	}
	return typed, nil
}

func refusedReference(err error) *refusal {
	return badGateway(causeForeignRef, "the instance's endpoint cannot be used: tell the operator that its Template's references are wrong", err)
}

// notReadyMessage tells the phase as the runtime cluster knows it, and what to do.
func notReadyMessage(at *place) string {
	phase := sandbarv1alpha1.InstanceMaterializing
	status, _ := at.instance.Object["status"].(map[string]any)
	if status["state"] == "ACTIVE" {
		phase = sandbarv1alpha1.InstanceDegraded // all is made, and no pod answers
	}
	return "the instance is not ready (phase " + string(phase) + "): wait for its condition Ready"
}
