// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/resize"
)

// preparation is a member that is being given other resources for one instance.
type preparation struct {
	namespace string
	// pod is the one that was asked first, from what its containers had then, and to what they get.
	pod      types.UID
	from, to resize.Wish
	began    time.Time
	// wakes has the instance reconciled.
	wakes func()
}

// preparations are those of this process, at most one for an instance and one for a member. It is safe for concurrent use.
type preparations struct {
	mu       sync.Mutex
	byObject map[export.Key]*preparation
	// tried is how many members could not be prepared for an instance, and when the last one.
	tried map[export.Key]tries
}

type tries struct {
	n    int
	last time.Time
}

func newPreparations() *preparations {
	return &preparations{byObject: map[export.Key]*preparation{}, tried: map[export.Key]tries{}}
}

// begin notes a preparation, in the place of one of another member for the same instance. It returns the one that there is
// for that instance and member, and reports whether it is a new one; nil if the member is another instance's.
func (p *preparations) begin(object export.Key, now *preparation) (mine *preparation, begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// An instance that is gone has nobody who drops its preparation.
	maps.DeleteFunc(p.byObject, func(_ export.Key, other *preparation) bool { return now.began.Sub(other.began) > 2*ResizePatience })
	if was := p.byObject[object]; was != nil && was.namespace == now.namespace {
		return was, false
	}
	for other, was := range p.byObject {
		if other != object && was.namespace == now.namespace {
			return nil, false
		}
	}
	p.byObject[object] = now
	return now, true
}

// of is the preparation for an instance; nil if there is none.
func (p *preparations) of(object export.Key) *preparation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byObject[object]
}

func (p *preparations) has(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.object(namespace)
	return ok
}

func (p *preparations) isFor(object export.Key, namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.object(namespace)
	return ok && is == object
}

func (p *preparations) isForOther(object export.Key, namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.object(namespace)
	return ok && is != object
}

func (p *preparations) object(namespace string) (export.Key, bool) {
	for object, is := range p.byObject {
		if is.namespace == namespace {
			return object, true
		}
	}
	return export.Key{}, false
}

// wake has the instance looked at for which a member is being prepared.
func (p *preparations) wake(namespace string) {
	p.mu.Lock()
	object, ok := p.object(namespace)
	is := p.byObject[object]
	p.mu.Unlock()
	if ok {
		is.wakes()
	}
}

func (p *preparations) drop(object export.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byObject, object)
}

// failed counts a member that could not be prepared.
func (p *preparations) failed(object export.Key, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.tried, func(_ export.Key, t tries) bool { return now.Sub(t.last) > resizesForgotten })
	p.tried[object] = tries{p.tried[object].n + 1, now}
}

// failures is how many members could not be prepared for an instance lately.
func (p *preparations) failures(object export.Key, now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tried[object]; now.Sub(t.last) <= resizesForgotten {
		return t.n
	}
	return 0
}

func (p *preparations) forget(object export.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byObject, object)
	delete(p.tried, object)
}
