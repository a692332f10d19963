// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// interval is how often policies are tried while they hold: a network plugin may be replaced.
	interval = 6 * time.Hour
	// retryInterval is how often they are tried while they do not, or nothing is known.
	retryInterval = 10 * time.Minute
)

var (
	enforced = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sandbar_network_policy_enforced",
		Help: "1 if the runtime cluster enforces network policies, 0 if it does not, -1 while that is not known.",
	})
	checksTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_network_policy_checks_total",
		Help: "How often it was tried whether network policies hold, by reason of the result.",
	}, []string{"reason"})
)

func init() {
	metrics.Registry.MustRegister(enforced, checksTotal)
	enforced.Set(-1)
}

// Prober tries network policies again and again, as long as this process leads.
type Prober struct {
	// check makes one check; a variable for tests.
	check func(ctx context.Context, image, runtimeClass string) Result
	// changed is called when there is another result.
	changed func(context.Context)

	wake chan struct{}

	mu                  sync.Mutex
	image, runtimeClass string
	used                bool
	result              *Result
}

// New makes a Prober. changed is called, not concurrently, when there is another result.
func New(client kubernetes.Interface, changed func(context.Context)) *Prober {
	return &Prober{
		check:   func(ctx context.Context, image, class string) Result { return check(ctx, client, image, class) },
		changed: changed, wake: make(chan struct{}, 1),
	}
}

// Use says what the pods run as: the runner's image, and the runtime class of sandboxes. A change
// has the next check made at once. Before the first call none is made.
func (p *Prober) Use(image, runtimeClass string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used && p.image == image && p.runtimeClass == runtimeClass {
		return
	}
	p.used, p.image, p.runtimeClass = true, image, runtimeClass
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// Last is what was found out last; ok is false before the first check.
func (p *Prober) Last() (result Result, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.result == nil {
		return Result{}, false
	}
	return *p.result, true
}

// Start implements manager.Runnable.
func (p *Prober) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	<-timer.C // the first check comes with the first Use
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-timer.C:
		}
		result := p.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		next := retryInterval
		if result.Status == metav1.ConditionTrue {
			next = interval
		}
		timer.Reset(next)
	}
}

func (p *Prober) look(ctx context.Context) Result {
	p.mu.Lock()
	image, class := p.image, p.runtimeClass
	p.mu.Unlock()
	result := Result{
		metav1.ConditionUnknown, ReasonNoImage,
		"whether network policies hold is tried with the runner's image: set spec.images.runner of the InfrastructureProvider",
	}
	if image != "" {
		result = p.check(ctx, image, class)
	}
	if ctx.Err() != nil {
		return result // which says nothing but that the process ends
	}
	checksTotal.WithLabelValues(result.Reason).Inc()
	enforced.Set(map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0, metav1.ConditionUnknown: -1}[result.Status])
	p.mu.Lock()
	news := p.result == nil || *p.result != result
	p.result = &result
	p.mu.Unlock()
	if news {
		p.changed(ctx)
	}
	return result
}
