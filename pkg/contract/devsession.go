// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"maps"
	"slices"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// SessionService is the serviceRef of the verbs of DevSessions. No Template can write it, since it is not a path of a status: it
// stands for the control Service of the session that the caller names.
const SessionService = "session"

// DevSession is the contract of DevSessions: the verbs of a component in development, but for proxy. They take proofs.
func DevSession() *sandbarv1alpha1.DataPlane {
	endpoints := developmentEndpoints("", &sandbarv1alpha1.DevelopmentComponent{})
	for verb, e := range endpoints {
		e.ServiceRef = SessionService
		endpoints[verb] = e
	}
	return &sandbarv1alpha1.DataPlane{Endpoints: endpoints, ControlAuth: sandbarv1alpha1.ControlAuthProof}
}

// DevSessionVerbs are the verbs of DevSessions, sorted.
func DevSessionVerbs() []string { return slices.Sorted(maps.Keys(DevSession().Endpoints)) }
