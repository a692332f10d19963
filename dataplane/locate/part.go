// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/dataplane/access"
	"github.com/sandbar-dev/sandbar/dataplane/refusal"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// locatePart is Locate for a compound instance, which has no placement: its part has one, an instance of another kind of the
// same name.
//
// The attack: somebody makes an object of the part's kind under the name of another's instance, and callers who may use that
// instance are led to pods of the attacker's, or use pods that only rights to the other kind give. So the placement has to name
// the instance by the UID that kcp tells of it. A caller to whom kcp tells none, without the right to get it, is led nowhere.
func (p *Placer) locatePart(part *Kind, r Route, g access.Grant) (*Place, *refusal.Error) {
	if g.Owner.UID == "" {
		return nil, refusal.NotFound(refusal.CauseNotPlaced)
	}
	for namespace := range p.Cache.claiming(claimKey(part.Provider(), g.Owner.Cluster, part.Template.Name, r.Namespace, r.Name)) {
		owner, ok := placement.OwnerOf(namespace)
		if !ok || types.UID(namespace.Annotations[placement.AnnotationCompoundUID]) != g.Owner.UID {
			continue
		}
		own := g
		own.Owner = owner
		at, refused := p.locateOwn(part, r, own)
		if refused == nil {
			at.Asked = g.Owner
		}
		return at, refused
	}
	return nil, refusal.NotFound(refusal.CauseNotPlaced)
}

// isPart reports whether a place is not that of the object that the caller named, but of its part.
func (p *Place) isPart() bool { return p.Asked.UID != "" && p.Asked != p.Owner }
