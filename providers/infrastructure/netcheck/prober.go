// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// interval is how often policies and DNS are tried while all is well: a network plugin may be replaced.
	interval = 6 * time.Hour
	// retryInterval is how often they are tried while it is not, or something is not known.
	retryInterval = 10 * time.Minute
)

var (
	enforced = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sandbar_network_policy_enforced",
		Help: "1 if the runtime cluster enforces network policies, 0 if it does not, -1 while that is not known.",
	})
	reachable = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sandbar_dns_reachable",
		Help: "1 if a pod under the egress policy of placements resolves a name, 0 if it does not, -1 while that is not known.",
	})
	checksTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sandbar_network_policy_checks_total",
		Help: "How often it was tried whether network policies hold, by reason of the result.",
	}, []string{"reason"})
)

func init() {
	metrics.Registry.MustRegister(enforced, reachable, checksTotal)
	enforced.Set(-1)
	reachable.Set(-1)
}

// Prober tries network policies, and DNS under them, again and again, as long as this process leads.
type Prober struct {
	// check makes one check; a variable for tests.
	check func(context.Context, Settings) Results
	// changed is called when there is another result.
	changed func(context.Context)

	wake chan struct{}

	mu       sync.Mutex
	settings Settings
	used     bool
	results  *Results
}

// New makes a Prober that starts its pods in a namespace. changed is called, not concurrently, when there is another result.
func New(client kubernetes.Interface, namespace string, changed func(context.Context)) *Prober {
	return &Prober{
		check:   func(ctx context.Context, settings Settings) Results { return check(ctx, client, namespace, settings) },
		changed: changed, wake: make(chan struct{}, 1),
	}
}

// Use says what the checks depend on. A change has the next check made at once. Before the first call none
// is made.
func (p *Prober) Use(settings Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used && equality.Semantic.DeepEqual(p.settings, settings) {
		return
	}
	if p.results != nil && !equality.Semantic.DeepEqual(p.settings.Egress, settings.Egress) {
		p.results = &Results{Policies: p.results.Policies, DNS: pending(settings)}
	}
	p.used, p.settings = true, settings
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// pending is what is known of DNS between a change of the egress policy and its check: what was found before
// says nothing of it.
func pending(settings Settings) Result {
	if settings.Egress == nil {
		return Result{}
	}
	return Result{metav1.ConditionUnknown, ReasonPending, "whether sandboxes resolve names with the present settings is being tried, which takes up to three minutes"}
}

// Last is what was found out last; ok is false before the first check.
func (p *Prober) Last() (results Results, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.results == nil {
		return Results{}, false
	}
	return *p.results, true
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
		results := p.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		next := retryInterval
		if results.Policies.Status == metav1.ConditionTrue && (results.DNS.Status == metav1.ConditionTrue || results.DNS.Status == "") {
			next = interval
		}
		timer.Reset(next)
	}
}

func (p *Prober) look(ctx context.Context) Results {
	p.mu.Lock()
	settings := p.settings
	p.mu.Unlock()
	results := withoutImage(settings)
	if settings.Image != "" {
		results = p.check(ctx, settings)
	}
	if ctx.Err() != nil {
		return results // which say nothing but that the process ends
	}
	checksTotal.WithLabelValues(results.Policies.Reason).Inc()
	enforced.Set(gauge(results.Policies))
	reachable.Set(gauge(results.DNS))
	p.mu.Lock()
	news := p.results == nil || *p.results != results
	p.results = &results
	p.mu.Unlock()
	if news {
		p.changed(ctx)
	}
	return results
}

// withoutImage is what is known if there is nothing to try it with.
func withoutImage(settings Settings) Results {
	const remedy = " is tried with the runner's image: set spec.images.runner of the InfrastructureProvider"
	results := Results{Policies: Result{metav1.ConditionUnknown, ReasonNoImage, "whether network policies hold" + remedy}}
	if settings.Egress != nil {
		results.DNS = Result{metav1.ConditionUnknown, ReasonNoImage, "whether sandboxes resolve names" + remedy}
	}
	return results
}

// gauge is the value of a metric: nothing that is said is unknown, too.
func gauge(result Result) float64 {
	switch result.Status {
	case metav1.ConditionTrue:
		return 1
	case metav1.ConditionFalse:
		return 0
	default:
		return -1
	}
}
