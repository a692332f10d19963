// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/clone"
	"github.com/sandbar-dev/sandbar/pkg/devsession"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/outcome"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/instance/scope"
)

// fieldDeveloped of a copy is true while a DevSession serves alone in its place.
const fieldDeveloped = "developed"

// RunnerImage is the image of the runner; empty if the operator has none.
func RunnerImage(s *scope.Scope) string {
	if s.Infrastructure() == nil {
		return ""
	}
	return s.Infrastructure().Images[runnerImage]
}

// SessionsIn are the UIDs of the DevSessions of which the kro instance has anything; current may be nil.
func SessionsIn(s *scope.Scope, current *unstructured.Unstructured) map[types.UID]bool {
	in := map[types.UID]bool{}
	for _, field := range []string{s.Clones().Fields.To, s.Clones().Fields.Claims} {
		for _, item := range itemsOf(current, field) {
			if uid := sessionOf(item); uid != "" {
				in[uid] = true
			}
		}
	}
	return in
}

// sessionOf is the UID of the DevSession that an item is made of; empty for that of a copy.
func sessionOf(item any) types.UID {
	uid, _, _ := unstructured.NestedString(item.(map[string]any), "labels", placement.LabelSessionUID)
	return types.UID(uid)
}

// ofSessions splits items into those of copies and those of DevSessions.
func ofSessions(items []any) (copies, sessions []any) {
	copies = []any{}
	for _, item := range items {
		if sessionOf(item) == "" {
			copies = append(copies, item)
		} else {
			sessions = append(sessions, item)
		}
	}
	return copies, sessions
}

// sessionsOf are the items and the claims of all DevSessions, first those with a record.
//
// The attack on data: a record that is lost, with the ConfigMap that somebody deletes, must not take the volume with it. So an
// item goes only if its record says Gone.
func sessionsOf(made *outcome.Copies, formerItems, formerClaims []any) (items, claims []any, err error) {
	done := map[types.UID]bool{}
	for _, component := range slices.Sorted(maps.Keys(made.Sessions)) {
		record := made.Sessions[component]
		rendered := renderedSession(made, component)
		done[record.UID] = record.Stage == devsession.Gone || rendered != nil
		if !done[record.UID] || rendered == nil {
			continue
		}
		item, err := copyItem(rendered)
		if err != nil {
			return nil, nil, fmt.Errorf("DevSession %s: %w", record.Name, err)
		}
		items = append(items, item)
		for _, claim := range rendered.Claims {
			fields, err := fieldsOf(claim)
			if err != nil {
				return nil, nil, fmt.Errorf("DevSession %s: %w", record.Name, err)
			}
			claims = append(claims, flat(fields))
		}
	}
	isDone := func(item any) bool { return done[sessionOf(item)] }
	return append(items, slices.DeleteFunc(formerItems, isDone)...), append(claims, slices.DeleteFunc(formerClaims, isDone)...), nil
}

// renderedSession is the session of a component as it was rendered in this look; nil if it was not, or is to go.
func renderedSession(made *outcome.Copies, component string) *clone.Rendered {
	if made.Sessions[component].Stage == devsession.Gone {
		return nil
	}
	for i := range made.Components {
		if made.Components[i].Name == component {
			return made.Components[i].Session
		}
	}
	return nil
}

// lead has the Service of each copy choose the pods that are to get its requests, and notes which copies are to have no pods.
func lead(copies []any, sessions map[string]devsession.Record) {
	for _, item := range copies {
		fields := item.(map[string]any)
		labels, _, _ := unstructured.NestedStringMap(fields, "labels")
		component, placed := labels[placement.LabelComponent], labels[placement.LabelInstanceUID]
		service, _, _ := unstructured.NestedFieldNoCopy(fields, "service", "spec")
		spec, ok := service.(map[string]any)
		if !ok || component == "" || placed == "" {
			continue
		}
		selector := map[string]string{placement.LabelInstanceUID: placed, placement.LabelComponent: component}
		delete(fields, fieldDeveloped)
		if record, ok := sessions[component]; ok {
			if record.Stage.LeadsToSession() {
				selector = devsession.Selector(placed, record.UID)
			}
			if record.Stage.StopsCopy() {
				fields[fieldDeveloped] = true
			}
		}
		chosen := map[string]any{}
		for name, value := range selector {
			chosen[name] = value
		}
		spec["selector"] = chosen
	}
}
