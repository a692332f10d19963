// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// The lanes: how a sandbox is asked for, and whom.
const (
	warm         = "Warm"
	cold         = "Cold"
	byClaim      = "SandboxClaim"
	byVerb       = "verb"
	agentSandbox = "agent-sandbox"
)

// subjects are what is measured.
type subjects struct {
	size   sizes
	tenant *stage.Tenant
	// anchor is nil if it is not measured.
	anchor *anchor
	caller *client.Client
	url    string
	// taken is how many members of the set were taken.
	taken atomic.Int64
}

func newSubjects(ctx context.Context, provider *local.Provider, tenant *stage.Tenant, size sizes) (*subjects, error) {
	s := &subjects{size: size, tenant: tenant, url: provider.URL}
	ca, err := os.ReadFile(provider.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the data plane's CA: %w", err)
	}
	if s.caller, err = client.New(tenant.Config, client.DataPlane{URL: provider.URL, CABundle: ca}); err != nil {
		return nil, err
	}
	if size.anchor {
		s.anchor, err = startAnchor(ctx, provider.Stack, size.burst)
	}
	return s, err
}

func (s *subjects) close() error {
	s.caller.Close()
	if s.anchor == nil {
		return nil
	}
	return s.anchor.close()
}

// lanes are those that are measured, of some.
func (s *subjects) lanes(all ...string) []string {
	return slices.DeleteFunc(all, func(lane string) bool { return lane == agentSandbox && s.anchor == nil })
}

// waitFull waits until the pools have as many as they should.
func (s *subjects) waitFull(ctx context.Context, members int) error {
	if err := waitFull(ctx, s.tenant, members, s.taken.Load()); err != nil || s.anchor == nil {
		return err
	}
	return s.anchor.waitFull(ctx, members)
}

// sequence measures all lanes in turns.
func (s *subjects) sequence(ctx context.Context, w *ways, took *durations) error {
	for i := range s.size.sequence {
		for _, lane := range s.lanes(warm, byClaim, byVerb, agentSandbox, cold) {
			d, err := s.measure(ctx, lane, fmt.Sprint("seq-", i), w, nothing)
			if err != nil {
				return err
			}
			took.add("sequence", lane, d)
			fmt.Fprintf(os.Stderr, "%s %d/%d: %v\n", lane, i+1, s.size.sequence, d.Round(time.Millisecond))
		}
	}
	return nil
}

// bursts measures many at once of each lane, one lane after the other, out of pools that are full. None is deleted before
// all are Ready.
func (s *subjects) bursts(ctx context.Context, w *ways, took *durations) error {
	for _, lane := range s.lanes(warm, byClaim, byVerb, agentSandbox, cold) {
		if err := s.waitFull(ctx, s.size.burst); err != nil {
			return err
		}
		var ready sync.WaitGroup
		ready.Add(s.size.burst)
		if err := together(s.size.burst, nil, func(i int) error {
			one := sync.OnceFunc(ready.Done)
			defer one() // also when it fails
			d, err := s.measure(ctx, lane, fmt.Sprint("burst-", i), w, func() {
				one()
				ready.Wait()
			})
			took.add("burst", lane, d)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// alone takes all members of the set, one after the other, while the set makes no others.
func (s *subjects) alone(ctx context.Context, w *ways, took *durations) error {
	return s.drain(ctx, "alone", w, took)
}

// beside is alone while there are Sandboxes that cannot come to be: of a template that there is not, and of an image that there
// is not.
func (s *subjects) beside(ctx context.Context, w *ways, took *durations) error {
	image := podSpec()
	image["containers"].([]any)[0].(map[string]any)["image"] = "localhost/sandbar/no-such-image:dev"
	hopeless := map[string]map[string]any{
		"no-template": {"prewarm": "Require", "startTimeout": "1h", "template": map[string]any{"templateRef": map[string]any{"kind": "SandboxTemplate", "name": "nobody-has-this"}}},
		"no-image":    {"template": map[string]any{"podTemplate": map[string]any{"spec": image}}},
	}
	for name, spec := range hopeless {
		if _, err := s.tenant.Sandboxes.Create(ctx, object("Sandbox", name, spec), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := s.drain(ctx, "beside", w, took); err != nil {
		return err
	}
	for name := range hopeless {
		if err := s.tenant.Sandboxes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *subjects) drain(ctx context.Context, group string, w *ways, took *durations) error {
	if err := waitFull(ctx, s.tenant, s.size.burst, s.taken.Load()); err != nil {
		return err
	}
	if err := pause(ctx, s.tenant, true); err != nil {
		return err
	}
	for i := range s.size.burst {
		d, err := s.measure(ctx, warm, fmt.Sprint(group, "-", i), w, nothing)
		if err != nil {
			return err
		}
		took.add(group, warm, d)
	}
	return pause(ctx, s.tenant, false)
}

// rates measures claims that come at a rate, whether or not the former ones are Ready, out of pools that have one for each.
func (s *subjects) rates(ctx context.Context, w *ways, took *durations) error {
	n := s.size.rate * s.size.seconds
	if n == 0 {
		return nil
	}
	for _, lane := range s.lanes(warm, agentSandbox) {
		// One pool at a time: a node has not the room for both.
		inSet, inPool := n, 0
		if lane == agentSandbox {
			inSet, inPool = 0, n
		}
		if err := resize(ctx, s.tenant.Sets, inSet); err != nil {
			return err
		}
		if s.anchor != nil {
			if err := resize(ctx, s.anchor.pools, inPool); err != nil {
				return err
			}
			if err := s.anchor.waitFull(ctx, inPool); err != nil {
				return err
			}
		}
		if err := waitFull(ctx, s.tenant, inSet, s.taken.Load()); err != nil {
			return err
		}
		every := time.NewTicker(time.Second / time.Duration(s.size.rate))
		err := together(n, every.C, func(i int) error {
			d, err := s.measure(ctx, lane, fmt.Sprint("rate-", i), w, nothing)
			took.add("rate", lane, d)
			return err
		})
		every.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// together does something n times at once, or each with the next tick, and returns the first error.
func together(n int, tick <-chan time.Time, do func(i int) error) error {
	failed := make(chan error, n)
	for i := range n {
		if tick != nil {
			<-tick
		}
		go func() { failed <- do(i) }()
	}
	var first error
	for range n {
		if err := <-failed; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func nothing() {}

// measure gets a sandbox by a lane and returns the time until it is Ready, by the clock of its client, from before the request.
// The way of a Sandbox that was created as such and started warm is noted. It is deleted once meanwhile returns.
func (s *subjects) measure(ctx context.Context, lane, name string, w *ways, meanwhile func()) (time.Duration, error) {
	switch lane {
	case agentSandbox:
		return s.anchor.measure(ctx, name, meanwhile)
	case byVerb:
		return s.measureVerb(ctx, "v-"+name, meanwhile)
	case byClaim:
		claim := object("SandboxClaim", "b-"+name, map[string]any{"templateRef": map[string]any{"name": pool}})
		took, err := stage.WayToReady(ctx, s.tenant.Claims, claim, func(is *unstructured.Unstructured) error {
			boxes, _, _ := unstructured.NestedSlice(is.Object, "status", "sandboxes")
			if len(boxes) != 1 || boxes[0].(map[string]any)["start"] != warm {
				return fmt.Errorf("it has %v", boxes)
			}
			s.taken.Add(1)
			meanwhile()
			return nil
		})
		return took.Ready, err
	}
	spec := map[string]any{"template": map[string]any{"templateRef": map[string]any{"kind": "SandboxTemplate", "name": pool}}}
	if lane == cold {
		spec["prewarm"] = "None"
	}
	var was *unstructured.Unstructured
	took, err := stage.WayToReady(ctx, s.tenant.Sandboxes, object("Sandbox", "c-"+name, spec), func(is *unstructured.Unstructured) error {
		if started, _, _ := unstructured.NestedString(is.Object, "status", "start", "type"); started != lane {
			return fmt.Errorf("it started %q, and not %s", started, lane)
		}
		if was = is; lane == warm {
			s.taken.Add(1)
		}
		meanwhile()
		return nil
	})
	if err == nil && lane == warm {
		err = w.add(took, was)
	}
	return took.Ready, err
}

// measureVerb claims with one call to the data plane, until that is answered.
func (s *subjects) measureVerb(ctx context.Context, name string, meanwhile func()) (time.Duration, error) {
	began := time.Now()
	claimed, err := s.caller.Claim(ctx, s.url, s.tenant.Path, "default", pool, client.ClaimOptions{Name: name})
	took := time.Since(began)
	if err != nil {
		return took, err
	}
	if !claimed.Ready || claimed.Start == nil || claimed.Start.Type != warm {
		return took, fmt.Errorf("%s is %+v", name, claimed)
	}
	s.taken.Add(1)
	meanwhile()
	if err := s.tenant.Sandboxes.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return took, err
	}
	return took, stage.Insist(ctx, func(ctx context.Context) error {
		_, err := s.tenant.Sandboxes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %w", name, err)
	})
}
