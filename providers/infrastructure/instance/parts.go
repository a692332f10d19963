// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/compound"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// compoundWords are what the operator says of the parts of compound instances.
func (k *Kinds) compoundWords(ctx context.Context, fields sandbarv1alpha1.CompoundFields) (*scope.CompoundWords, error) {
	words := &scope.CompoundWords{Fields: fields, Route: routeKind(fields)}
	template := &sandbarv1alpha1.Template{}
	err := k.client.Get(ctx, types.NamespacedName{Name: fields.Template}, template)
	if apierrors.IsNotFound(err) {
		return words, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Template of the parts: %w", err)
	}
	if kind, exported := kindOf(template, k.config.names); exported && template.Spec.Clones != nil {
		words.Part, words.To = kind.Kind, template.Spec.Clones.From
	}
	return words, nil
}

// routeKind is the kind of objects that lead requests to copies: one of the register of built-in kinds.
func routeKind(fields sandbarv1alpha1.CompoundFields) export.Kind {
	if fields.RoutingFrom == "" {
		return export.Kind{}
	}
	kind := builtin.Of(builtin.SandboxRoute)
	return export.Kind{GVK: kind.GVK(), Resource: kind.Resource}
}

// partsOf returns the instances of a Template, and false while none are followed.
func (k *Kinds) partsOf(template string) (compound.Parts, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	r := k.running[template]
	if r == nil {
		return nil, false
	}
	return r.Objects, true
}

// partChanged has the compound instance looked at whose part an instance of a Template is: the one of its name. It is not asked
// whether the part is its own: one that takes its name from it may have gone. Of a group it tells those, too, who lead requests
// to its copies.
func (k *Kinds) partChanged(template string, part request) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if r := k.running[template]; r != nil && r.isOfGroups() {
		k.groups.changed(part)
	}
	k.wakeWhole(part, func(words *scope.CompoundWords) bool { return words.Fields.Template == template })
}

// BuiltInPartChanged returns a function that has the compound instance looked at whose part an object of a built-in kind may be: the
// one of its name. It is to be told of each object that comes, changes or goes, or whose status does.
func (k *Kinds) BuiltInPartChanged(kind string) func(part export.Key) {
	return func(part export.Key) {
		k.mu.RLock()
		defer k.mu.RUnlock()
		k.wakeWhole(part, func(words *scope.CompoundWords) bool { return words.Route.GVK.Kind == kind })
	}
}

// wakeWhole has the instances of a name looked at, of the compound kinds whose words are as wanted. The lock is held.
func (k *Kinds) wakeWhole(part request, wanted func(*scope.CompoundWords) bool) {
	for _, r := range k.running {
		words := r.settings.Load().Compound
		if words != nil && wanted(words) && r.Objects.Known(part) {
			r.Wake(part, false)
		}
	}
}

// partsFollowed has the compound instances looked at that waited until the instances of a Template are followed.
func (k *Kinds) partsFollowed(template string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.running {
		if words := r.settings.Load().Compound; words != nil && words.Fields.Template == template {
			r.WakeAll()
		}
	}
}

const (
	// maxCorrections bounds the parts whose last correction is remembered; those of others are made at once.
	maxCorrections = 4096
	// correctAgain is after which time a part is corrected again of which the instance says the same: with another writer that
	// changes it back at once, the two would keep each other, and kcp, busy for ever.
	correctAgain = 10 * time.Second
)

// corrections remember when the parts of compound instances were changed last. They are safe for concurrent use.
type corrections struct {
	last *lru.Cache[correctedPart, correction]
}

// correctedPart is a part of an instance, by its kind.
type correctedPart struct {
	of   types.UID
	kind string
}

// correction is by which plan a part was last changed, and when.
type correction struct {
	plan compound.PlanID
	at   time.Time
}

func newCorrections() *corrections {
	last, _ := lru.New[correctedPart, correction](maxCorrections) // fails only for a size below one
	return &corrections{last}
}

// wait is after which time the part of an instance may be corrected by a plan; zero means now. A plan that differs from the last
// one is the tenant's word, or that of the time: an annotation and a shutdownTime change it without another generation.
func (c *corrections) wait(obj metav1.Object, kind string, plan compound.PlanID, now time.Time) time.Duration {
	last, found := c.last.Get(correctedPart{obj.GetUID(), kind})
	if !found || last.plan != plan {
		return 0
	}
	return min(max(0, last.at.Add(correctAgain).Sub(now)), correctAgain) // also if the clock is put back
}

func (c *corrections) note(obj metav1.Object, kind string, plan compound.PlanID, now time.Time) {
	c.last.Add(correctedPart{obj.GetUID(), kind}, correction{plan, now})
}
