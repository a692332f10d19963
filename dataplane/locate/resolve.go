// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Target is where a request goes: a port of a Service, or a port or a subresource of a Pod. Exactly
// one of service and pod is set. All of it lies in the instance's placement.
type Target struct {
	Namespace string

	Service string
	// Port is the name of the Service's port, or the number of the Pod's.
	Port string
	// upstreamPath begins with a slash; the tail cannot leave it.
	upstreamPath string
	// Secret is the name of the Secret with the control token; empty if none is shown. proves is
	// set if pods that take proofs do not get the token itself.
	Secret string //nolint:gosec // a name
	proves bool

	// Pod is shared: never write to it.
	Pod *corev1.Pod
	// Subresource is what of the Pod is meant; see package contract.
	Subresource string
	// container is the one that the contract names; callers cannot choose another. Empty if it
	// names none.
	container string

	// At is the placement, whose phase a caller is told when no pod of the Service is ready.
	At *Place

	// Proxy is set for the verb that leads to what the tenant runs. It never gets the control
	// token: the app behind it is the tenant's, and with the token it could drive the runner.
	Proxy   bool
	Stream  bool
	upgrade bool
}

// Resolve follows an endpoint's reference within the placement. Every object that it meets must
// lie in the computed namespace and carry the instance's UID, whatever the status says: a graph
// can be wrong, and a status can be made to lie.
func (p *Placer) Resolve(at *Place, r Route, e sandbarv1alpha1.Endpoint) (*Target, *refusal.Error) {
	t := &Target{
		Namespace: at.ID.Namespace(), Proxy: r.Verb == contract.ProxyVerb,
		upstreamPath: e.UpstreamPath, Stream: e.Stream, upgrade: e.Upgrade, Port: e.Port,
		At: at,
	}
	if t.upstreamPath == "" {
		t.upstreamPath = "/"
	}
	if at.session != "" {
		return p.resolveSession(t, e)
	}
	if at.isPart() && r.Component == "" {
		return nil, refusal.NamesNoComponent()
	}
	if e.PodRef != "" || e.PodsOf != "" {
		return p.resolvePod(t, r, e)
	}
	if contract.OnlyInDevelopment(e.ServiceRef) && !contract.InDevelopment(at.Instance.Object) {
		return nil, refusal.NotInDevelopment()
	}
	service, refused := follow[corev1.Service](at, e.ServiceRef, p.Cache.Services.GetStore().GetByKey)
	if refused != nil {
		return nil, refused
	}
	t.Service = service.Name
	tokenRef := at.Kind.DataPlane().TokenSecretRef
	if tokenRef == "" || t.Proxy {
		return t, nil
	}
	// Whether the Secret is there, and whose it is, is looked at when a pod is dialled: one that
	// was deleted a moment ago is made again.
	ref, refused := reference(at, tokenRef)
	if refused != nil {
		return nil, refused
	}
	if ref.Name != placement.ControlSecret { // no other can be read
		return nil, RefusedReference(fmt.Errorf("following %s: %w: it is not the placement's %s", tokenRef, placement.ErrForeign, placement.ControlSecret))
	}
	t.Secret, t.proves = ref.Name, at.Kind.DataPlane().ControlAuth == sandbarv1alpha1.ControlAuthProof
	return t, nil
}

// Destination is what is dialled for the target.
func (t *Target) Destination() Destination {
	d := Destination{Namespace: t.Namespace, Service: t.Service, Port: t.Port, Secret: t.Secret, Proves: t.proves, UID: t.At.ID.UID}
	if t.Pod != nil {
		d.Pod = t.Pod.Name
	}
	return d
}

// reference reads a reference in the runtime instance's status. It must lead into the placement.
func reference(at *Place, path string) (contract.Ref, *refusal.Error) {
	ref, err := contract.Resolve(at.Instance.Object, path)
	if errors.Is(err, contract.ErrNotReady) {
		return ref, refusal.NotReady(notReadyMessage(at), err)
	}
	if err != nil {
		return ref, RefusedReference(err)
	}
	if ref.Namespace != at.ID.Namespace() {
		return ref, RefusedReference(fmt.Errorf("following %s: %w: it points to another namespace", path, placement.ErrForeign))
	}
	return ref, nil
}

// follow reads the object that a path in the runtime instance's status names.
func follow[T any, P interface {
	*T
	metav1.Object
}](at *Place, path string, get func(string) (any, bool, error)) (P, *refusal.Error) {
	ref, refused := reference(at, path)
	if refused != nil {
		return nil, refused
	}
	obj, found, err := get(ref.Namespace + "/" + ref.Name)
	if err != nil || !found {
		// Not there yet, or without the label of a placement: informers hold no other.
		return nil, refusal.NotReady(notReadyMessage(at), err)
	}
	typed, ok := obj.(P)
	if !ok {
		return nil, RefusedReference(fmt.Errorf("following %s: %w", path, placement.ErrForeign))
	}
	if err := at.ID.Check(typed); err != nil {
		return nil, RefusedReference(fmt.Errorf("following %s: %w", path, err))
	}
	return typed, nil
}

// RefusedReference is a 502 for a reference that leads out of the placement; err says where, in the log alone.
func RefusedReference(err error) *refusal.Error {
	return refusal.BadGateway(refusal.CauseForeignRef, "the instance's endpoint cannot be used: tell the operator that its Template's references are wrong", err)
}

// notReadyYet names no phase: that is the controllers' to judge, by more than the data plane sees.
const notReadyYet = "the instance is not ready: wait for its condition Ready, which says why"

// notReadyMessage says how far an instance is that names no endpoint for a verb, and what to do.
func notReadyMessage(at *Place) string {
	if IsComposed(at.Instance) {
		return "the instance has no endpoint for this verb yet: try again in a moment, and look at its condition Ready if this lasts"
	}
	return notReadyYet
}

// NoPodMessage is notReadyMessage for an instance whose endpoint is named, and that has no pod behind it.
func NoPodMessage(at *Place) string {
	if IsComposed(at.Instance) {
		return "no pod of the instance serves this verb now: try again in a moment, and look at its condition Ready if this lasts"
	}
	return notReadyMessage(at)
}

// IsComposed reports whether kro says that all of an instance is made.
func IsComposed(instance *unstructured.Unstructured) bool {
	status, _ := instance.Object["status"].(map[string]any)
	return status["state"] == "ACTIVE"
}

// URL is the URL of a request: the target's address u, the endpoint's path and then what was asked for, tail
// and query, as it came: Opaque is the path that is sent, and Path what it means. The tail has no segment that
// climbs (see climbs), so that nothing leaves the endpoint's path.
func (t *Target) URL(u url.URL, tail string, asked *url.URL) *url.URL {
	raw := strings.TrimSuffix(u.EscapedPath(), "/") + joinTail(t.upstreamPath, tail)
	if path, err := url.PathUnescape(raw); err == nil {
		u.Path, u.RawPath, u.Opaque = path, "", raw
	}
	u.RawQuery, u.ForceQuery = asked.RawQuery, asked.ForceQuery
	return &u
}

func joinTail(upstreamPath, tail string) string {
	if tail == "" {
		return upstreamPath
	}
	return strings.TrimSuffix(upstreamPath, "/") + tail
}

// ResolveLive is Resolve, which follows an endpoint's reference. Where the copy of the runtime instance names nothing although
// kro has made all of it, the API server is asked: the copy may have been read under a schema that did
// not have the reference yet.
func (p *Placer) ResolveLive(ctx context.Context, at *Place, r Route, e sandbarv1alpha1.Endpoint) (*Target, *refusal.Error) {
	to, refused := p.Resolve(at, r, e)
	if refused == nil || refused.Cause != refusal.CauseNotReady || !IsComposed(at.Instance) || e.PodsOf != "" || at.session != "" { // which read no status
		return to, refused
	}
	known := at.Kind.Instances
	live, err := known.Live(ctx, at.ID.Namespace(), at.Instance.GetName())
	if err != nil || at.ID.Check(live) != nil {
		return to, refused
	}
	if to, refused = p.Resolve(at.With(live), r, e); refused == nil {
		known.Distrust(time.Now())
	}
	return to, refused
}
