// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// sessionKind is the kind of DevSessions, which has no Template: their objects are in the placements of kinds with copies. It is
// nil while there is no such kind.
func sessionKind(index map[schema.GroupResource]*Kind) *Kind {
	built := builtin.Of(builtin.DevSession)
	hosts := map[string]*Kind{}
	for _, host := range index {
		if host.Template.Spec.Clones == nil {
			continue
		}
		// As the Template of the host would have them: the provider, and what says how instances wake.
		t := &sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{
			Name: host.Template.Name, Annotations: map[string]string{logicalcluster.AnnotationKey: host.Provider()},
		}}
		t.Spec.DataPlane = *contract.DevSession()
		t.Spec.DataPlane.WakeTimeout = host.DataPlane().WakeTimeout
		hosts[host.Template.Name] = &Kind{Template: t, Resource: built.GVR(), Verbs: contract.DevSessionVerbs(), Instances: host.Instances}
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		first := *hosts[name]
		first.hosts = hosts
		return &first
	}
	return nil
}

// locateSession is Locate for a DevSession, which has no placement: its control Service is in that of a group, and says by the
// session's UID whose it is.
//
// The attack: somebody has a Service with the UID of another's session, and its callers are led to pods of the attacker's. The
// label is one that no tenant can write, and the placement has to be of the provider, of the session's own logical cluster
// and of its namespace. A caller to whom kcp tells no UID, without the right to get the session, is led nowhere.
func (p *Placer) locateSession(k *Kind, r Route, g access.Grant) (*Place, *refusal.Error) {
	if g.Owner.UID == "" {
		return nil, refusal.NotFound(refusal.CauseNotPlaced)
	}
	for _, service := range p.Cache.servicesOf(g.Owner.UID) {
		namespace := Lookup[corev1.Namespace](p.Cache.Namespaces, service.Namespace)
		if namespace == nil {
			continue
		}
		placed, ok := placement.Of(namespace)
		host := k.hosts[namespace.Labels[placement.LabelTemplate]]
		if !ok || host == nil || placed.Owner.Cluster != g.Owner.Cluster || placed.Object.Namespace != r.Namespace {
			continue
		}
		of, id := p.Cache.placementOf(host.Provider(), placed.Owner)
		if of == nil || of.Name != service.Namespace || id.Check(service) != nil {
			continue
		}
		return &Place{
			ID: id, Owner: placed.Owner, Kind: host, Asked: g.Owner,
			instance: placed.InstanceName(), ending: namespace.DeletionTimestamp != nil, session: service.Name,
		}, nil
	}
	return nil, refusal.NotFound(refusal.CauseNotPlaced)
}

// resolveSession leads a verb of a DevSession to its control Service. Its pods take proofs, and never get the token.
func (p *Placer) resolveSession(t *Target, e sandbarv1alpha1.Endpoint) (*Target, *refusal.Error) {
	if e.ServiceRef != contract.SessionService {
		return nil, RefusedReference(fmt.Errorf("following %s: %w", e.ServiceRef, placement.ErrForeign))
	}
	service := Lookup[corev1.Service](p.Cache.Services, t.Namespace+"/"+t.At.session)
	if service == nil || types.UID(service.Labels[placement.LabelSessionUID]) != t.At.Asked.UID || t.At.ID.Check(service) != nil {
		return nil, refusal.NotReady("the session has no pod yet: wait for its condition Ready, which says why", nil)
	}
	t.Service, t.Secret, t.proves = service.Name, placement.ControlSecret, true
	return t, nil
}

// indexSession finds the control Services of a DevSession by its UID.
const indexSession = "session"

func indexSessions(services cache.SharedIndexInformer) error {
	err := services.AddIndexers(cache.Indexers{indexSession: func(obj any) ([]string, error) {
		service, ok := obj.(*corev1.Service)
		if !ok || service.Labels[placement.LabelSessionUID] == "" {
			return nil, nil
		}
		return []string{service.Labels[placement.LabelSessionUID]}, nil
	}})
	if err != nil {
		return fmt.Errorf("indexing the Services of sessions: %w", err)
	}
	return nil
}

// servicesOf are the Services with the UID of a DevSession. What it returns is shared.
func (c *RuntimeCache) servicesOf(session types.UID) (services []*corev1.Service) {
	objs, _ := c.Services.GetIndexer().ByIndex(indexSession, string(session)) // fails only without the index
	for _, obj := range objs {
		if service, ok := obj.(*corev1.Service); ok {
			services = append(services, service)
		}
	}
	return services
}
