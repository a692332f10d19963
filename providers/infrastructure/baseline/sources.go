// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/follow"
)

// rolloutDefinition is the CustomResourceDefinition by which the runtime cluster serves Rollouts.
const rolloutDefinition = "rollouts.argoproj.io"

// sources follows the namespaces of all Baselines, each once. It begins with the first Baseline that names one, and ends
// with the last. Register has it end with the manager.
type sources struct {
	client dynamic.Interface
	// tell is called with the Baselines of a namespace in which something has changed. It must not block for long.
	tell func(baselines []string)

	life context.Context //nolint:containedctx // that of the informers, which begin and end within
	end  context.CancelFunc
	wg   sync.WaitGroup

	// mu guards what follows. It is taken before those of followers.
	mu     sync.Mutex
	ended  bool
	wanted map[string][]string // namespaces, by Baseline
	// followed are the namespaces that some Baseline wants.
	followed map[string]*namespace
	// rollouts follows whether Rollouts are served; nil while nobody wants anything.
	rollouts *follower
}

func newSources(client dynamic.Interface, tell func(baselines []string)) *sources {
	s := &sources{client: client, tell: tell, wanted: map[string][]string{}, followed: map[string]*namespace{}}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Start waits for the end of ctx, and returns when no goroutine is left.
func (s *sources) Start(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.end()
	s.wg.Wait()
	return nil
}

// want says which namespaces a Baseline has; none if it is gone. Those that are new are followed, and those that nobody
// wants any more are not.
func (s *sources) want(baseline string, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if len(names) == 0 {
		delete(s.wanted, baseline)
	} else {
		s.wanted[baseline] = names
	}
	if len(s.wanted) > 0 && s.rollouts == nil {
		s.rollouts = s.followOne(definitions, rolloutDefinition, s.adjust)
	}
	for _, name := range names {
		if s.followed[name] == nil {
			n := &namespace{name: name, kinds: map[sandbarv1alpha1.BaselineWorkloadKind]*follower{}}
			s.followed[name] = n
			n.exists = s.followOne(namespaces, name, s.adjust)
		}
	}
	s.dropLocked()
}

// dropLocked ends what nobody wants.
func (s *sources) dropLocked() {
	for name, n := range s.followed {
		if len(s.baselinesLocked(name)) == 0 {
			n.stopKinds()
			n.exists.Stop()
			delete(s.followed, name)
		}
	}
	if len(s.wanted) == 0 && s.rollouts != nil {
		s.rollouts.Stop()
		s.rollouts = nil
	}
}

// adjust starts and stops the watches within namespaces, after one came or went, or the kind Rollout did.
func (s *sources) adjust() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	served, certain := s.rolloutsServedLocked()
	for _, n := range s.followed {
		if certain {
			n.adjust(s, served)
		}
	}
	all := make([]string, 0, len(s.wanted))
	for name := range s.wanted {
		all = append(all, name)
	}
	s.mu.Unlock()
	s.tell(all)
}

// followIn follows a kind in a namespace. s.mu is held.
func (s *sources) followIn(n *namespace, gvr schema.GroupVersionResource) *follower {
	name := n.name
	return s.start(gvr, name, "", func(...*item) { s.changed(name) })
}

// followOne follows the one object of a kind of the whole cluster that has a name. s.mu is held.
func (s *sources) followOne(gvr schema.GroupVersionResource, name string, changed func()) *follower {
	return s.start(gvr, "", name, func(...*item) { changed() })
}

func (s *sources) start(gvr schema.GroupVersionResource, namespace, name string, changed func(...*item)) *follower {
	return follow.Start(s.life, &s.wg, s.client, follow.Options[*item]{
		Resource: gvr, Namespace: namespace, Name: name, Keep: keep, Same: (*item).same, Changed: changed,
	})
}

// rolloutsServedLocked reports whether the runtime cluster serves Rollouts, and whether that is certain.
func (s *sources) rolloutsServedLocked() (served, certain bool) {
	if s.rollouts == nil {
		return false, false
	}
	list, state := s.rollouts.Items()
	return len(list) > 0, state != follow.Looking && state != follow.Unserved
}

// changed tells the Baselines of a namespace that something in it has changed.
func (s *sources) changed(namespace string) {
	s.mu.Lock()
	baselines := s.baselinesLocked(namespace)
	s.mu.Unlock()
	s.tell(baselines)
}

func (s *sources) baselinesLocked(namespace string) (baselines []string) {
	for baseline, names := range s.wanted {
		if slices.Contains(names, namespace) {
			baselines = append(baselines, baseline)
		}
	}
	return baselines
}

// look returns what is known of some namespaces, and whether the runtime cluster serves Rollouts.
func (s *sources) look(names []string) (views map[string]view, rolloutsServed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	served, _ := s.rolloutsServedLocked()
	views = map[string]view{}
	for _, name := range names {
		if n := s.followed[name]; n != nil {
			views[name] = n.view()
		}
	}
	return views, served
}
