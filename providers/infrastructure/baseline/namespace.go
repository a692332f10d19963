// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
)

// follower is one watch of one kind in one namespace.
type follower = follow.Follower[*item]

// What is followed, and install/rbac/baseline gives the rights to.
var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	rollouts    = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	workloads = map[sandbarv1alpha1.BaselineWorkloadKind]schema.GroupVersionResource{
		sandbarv1alpha1.BaselineDeployment:  {Group: "apps", Version: "v1", Resource: "deployments"},
		sandbarv1alpha1.BaselineStatefulSet: {Group: "apps", Version: "v1", Resource: "statefulsets"},
		sandbarv1alpha1.BaselineRollout:     rollouts,
	}
)

// view is what is known of a namespace.
type view struct {
	state viewState
	// workloads and services are those that there are, in no order; only of a namespace that is read.
	workloads map[sandbarv1alpha1.BaselineWorkloadKind][]*item
	services  []*item
}

type viewState int

const (
	// unread: not all of it has been listed yet.
	unread viewState = iota
	read
	missing
	forbidden
)

// namespace follows one namespace: first whether it is there, and then what is in it. sources.mu guards it.
type namespace struct {
	name   string
	exists *follower
	// kinds are the followers of its workloads; none of a kind that the runtime cluster does not serve.
	kinds    map[sandbarv1alpha1.BaselineWorkloadKind]*follower
	services *follower
}

// adjust starts and stops followers: there is nothing to ask about in a namespace that is not there, and nothing to ask
// of a kind that is not served. Asking for either would be refused or unknown, again and again.
func (n *namespace) adjust(s *sources, rolloutsServed bool) {
	here, state := n.exists.Items()
	if state != follow.Known || len(here) == 0 {
		if state == follow.Known {
			n.stopKinds()
		}
		return
	}
	if n.services == nil {
		n.services = s.followIn(n, services)
	}
	for _, kind := range sandbarv1alpha1.BaselineWorkloadKinds {
		served := kind != sandbarv1alpha1.BaselineRollout || rolloutsServed
		switch {
		case served && n.kinds[kind] == nil:
			n.kinds[kind] = s.followIn(n, workloads[kind])
		case !served && n.kinds[kind] != nil:
			n.kinds[kind].Stop()
			delete(n.kinds, kind)
		}
	}
}

func (n *namespace) stopKinds() {
	for kind, f := range n.kinds {
		f.Stop()
		delete(n.kinds, kind)
	}
	if n.services != nil {
		n.services.Stop()
		n.services = nil
	}
}

// view returns what is known now.
func (n *namespace) view() view {
	here, state := n.exists.Items()
	switch {
	case state == follow.Denied:
		return view{state: forbidden}
	case state != follow.Known || len(here) > 0 && n.services == nil:
		return view{state: unread}
	case len(here) == 0:
		return view{state: missing}
	}
	v := view{state: read, workloads: map[sandbarv1alpha1.BaselineWorkloadKind][]*item{}}
	states := map[follow.Knowledge]bool{}
	list, state := n.services.Items()
	v.services, states[state] = list, true
	for kind, f := range n.kinds {
		list, state := f.Items()
		v.workloads[kind], states[state] = list, true
	}
	switch {
	case states[follow.Denied]:
		return view{state: forbidden}
	case states[follow.Looking], states[follow.Unserved]:
		return view{state: unread}
	}
	return v
}
