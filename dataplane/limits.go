// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Limits bound what one instance, one workspace, one caller and one server may use. The zero
// value of a field means its default. The InfrastructureProvider's spec.limits goes above them
// (settings.go); docs/limits.md says what a caller sees at each.
type Limits struct {
	// InstanceRequests is how many requests of one instance are in flight. Defaults to 64.
	InstanceRequests int
	// InstanceStreams is how many streams and upgraded connections one instance has.
	// Defaults to 32.
	InstanceStreams int
	// InstanceHeld is how many requests wait for one instance to wake. Defaults to 64.
	InstanceHeld int
	// ServerHeld is how many requests wait for instances to wake in all. Defaults to 4096.
	ServerHeld int
	// InstanceRate is how many requests per second one instance may get, over time. Defaults
	// to 250.
	InstanceRate int
	// InstanceBurst is how many it may get at once. Defaults to 1000: as many as its workspace
	// may start, since a page of an app in development loads hundreds of modules.
	InstanceBurst int
	// WorkspaceRequests is how many requests of one workspace are in flight. Defaults to 256.
	WorkspaceRequests int
	// WorkspaceStreams is how many streams one workspace has. Defaults to 256.
	WorkspaceStreams int
	// WorkspaceRate is how many requests per second one workspace may start, over time.
	// Defaults to 500.
	WorkspaceRate int
	// WorkspaceBurst is how many it may start at once. Defaults to 1000.
	WorkspaceBurst int
	// DeniedRate is how many questions to kcp that end with no one caller may cause per
	// second, over time: one user who is vouched for, one credential that kcp has accepted
	// before, or else one address.
	// Defaults to 100.
	DeniedRate int
	// DeniedBurst is how many of these it may cause at once. Defaults to 1000.
	DeniedBurst int
	// CallerQuestions is how many questions to kcp one caller has under way. Defaults to 128.
	CallerQuestions int
	// BodyBytes is the largest body of a request. Defaults to 64 MiB.
	BodyBytes int64
	// HeaderBytes is the largest header of a request. Defaults to 32 KiB.
	HeaderBytes int
	// Connections is how many connections the server holds; more wait to be accepted.
	// Upgraded connections count as streams instead. Defaults to 10,000.
	Connections int
	// ConnectionsPerAddress is how many of them come from one address; more are closed.
	// Defaults to 5,000.
	ConnectionsPerAddress int
	// HTTP2Streams is how many requests one HTTP/2 connection carries at once. Defaults to 100.
	HTTP2Streams int
	// ReadHeaderTimeout bounds how long a client takes to send a header. Defaults to 10 s.
	ReadHeaderTimeout time.Duration
	// IdleTimeout bounds how long a connection without requests is kept. Defaults to 90 s.
	IdleTimeout time.Duration
	// StallTimeout bounds how long a client may make no progress while it sends a body or
	// takes an answer. It is no limit on how long either lasts. Defaults to 60 s.
	StallTimeout time.Duration
	// ResponseTimeout bounds how long a pod may take to begin its answer; streams have none.
	// Defaults to 60 s.
	ResponseTimeout time.Duration
	// StreamIdle bounds how long an upgraded connection carries nothing either way. A
	// followed log has no such limit. Defaults to 1 h.
	StreamIdle time.Duration
	// StreamDuration bounds how long a stream lasts. Defaults to 24 h.
	StreamDuration time.Duration
	// KcpTolerance bounds how long a request that lasts outlives a kcp that does not answer
	// whether its caller still may. Defaults to 5 min.
	KcpTolerance time.Duration
	// ActivityInterval is how often at most the use of an instance that is in use is written
	// down. Defaults to 1 min.
	ActivityInterval time.Duration
}

// rateEntries bounds the workspaces and instances whose rate is remembered. One that falls out
// starts with a full burst again.
const rateEntries = 32768

func (l *Limits) setDefaults() {
	setDefault(&l.InstanceRequests, 64)
	setDefault(&l.InstanceStreams, 32)
	setDefault(&l.InstanceHeld, 64)
	setDefault(&l.ServerHeld, 4096)
	setDefault(&l.InstanceRate, 250)
	setDefault(&l.InstanceBurst, 1000)
	setDefault(&l.WorkspaceRequests, 256)
	setDefault(&l.WorkspaceStreams, 256)
	setDefault(&l.WorkspaceRate, 500)
	setDefault(&l.WorkspaceBurst, 1000)
	setDefault(&l.DeniedRate, 100)
	setDefault(&l.DeniedBurst, 1000)
	setDefault(&l.CallerQuestions, 128)
	setDefault(&l.BodyBytes, 64<<20)
	setDefault(&l.HeaderBytes, 32<<10)
	setDefault(&l.Connections, 10000)
	setDefault(&l.ConnectionsPerAddress, 5000)
	setDefault(&l.HTTP2Streams, 100)
	setDefault(&l.ReadHeaderTimeout, 10*time.Second)
	setDefault(&l.IdleTimeout, 90*time.Second)
	setDefault(&l.StallTimeout, time.Minute)
	setDefault(&l.ResponseTimeout, time.Minute)
	setDefault(&l.StreamIdle, time.Hour)
	setDefault(&l.StreamDuration, 24*time.Hour)
	setDefault(&l.KcpTolerance, 5*time.Minute)
	setDefault(&l.ActivityInterval, time.Minute)
}

// byName lists the limits by their names in the InfrastructureProvider; durations in seconds.
func (l *Limits) byName() map[string]float64 {
	return map[string]float64{
		"instanceRequests":         float64(l.InstanceRequests),
		"instanceStreams":          float64(l.InstanceStreams),
		"instanceHeld":             float64(l.InstanceHeld),
		"serverHeld":               float64(l.ServerHeld),
		"instanceRate":             float64(l.InstanceRate),
		"instanceBurst":            float64(l.InstanceBurst),
		"workspaceRequests":        float64(l.WorkspaceRequests),
		"workspaceStreams":         float64(l.WorkspaceStreams),
		"workspaceRate":            float64(l.WorkspaceRate),
		"workspaceBurst":           float64(l.WorkspaceBurst),
		"deniedRate":               float64(l.DeniedRate),
		"deniedBurst":              float64(l.DeniedBurst),
		"callerQuestions":          float64(l.CallerQuestions),
		"bodyBytes":                float64(l.BodyBytes),
		"headerBytes":              float64(l.HeaderBytes),
		"connections":              float64(l.Connections),
		"connectionsPerAddress":    float64(l.ConnectionsPerAddress),
		"http2Streams":             float64(l.HTTP2Streams),
		"readHeaderTimeoutSeconds": l.ReadHeaderTimeout.Seconds(),
		"idleTimeoutSeconds":       l.IdleTimeout.Seconds(),
		"stallTimeoutSeconds":      l.StallTimeout.Seconds(),
		"responseTimeoutSeconds":   l.ResponseTimeout.Seconds(),
		"streamIdleSeconds":        l.StreamIdle.Seconds(),
		"streamDurationSeconds":    l.StreamDuration.Seconds(),
		"kcpToleranceSeconds":      l.KcpTolerance.Seconds(),
		"activityIntervalSeconds":  l.ActivityInterval.Seconds(),
	}
}

// validate reports every limit that is none.
func (l *Limits) validate() error {
	var errs []error
	for name, value := range l.byName() {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("limit %s must be positive", name))
		}
	}
	if l.HeaderBytes < minHeaderBytes {
		errs = append(errs, fmt.Errorf("limit headerBytes must be at least %d", minHeaderBytes))
	}
	return errors.Join(errs...)
}

// minHeaderBytes is what a token needs at least.
const minHeaderBytes = 4096

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// limiter admits requests. Its memory is bounded by the requests in flight and by rateEntries.
type limiter struct {
	// limits are those in force; they may change between two calls.
	limits func() *Limits
	rates  *lru.Cache[slot, *rate.Limiter]

	mu       sync.Mutex
	inFlight map[slot]int
}

// slot is what is counted: requests or streams, of an instance or a workspace, or both where it is
// their rate. A workspace's name must not be taken for a UID.
type slot struct {
	key       string
	workspace bool
	stream    bool
}

func newLimiter(limits func() *Limits) (*limiter, error) {
	rates, err := lru.New[slot, *rate.Limiter](rateEntries)
	if err != nil {
		return nil, fmt.Errorf("making the rate limits: %w", err)
	}
	return &limiter{limits: limits, rates: rates, inFlight: map[slot]int{}}, nil
}

// admit lets a request of an instance go on, or refuses it. release must be called when the
// request has ended.
func (l *limiter) admit(workspace, instance string, stream bool) (release func(), refused *refusal) {
	limits := l.limits()
	// The instance's first: what is refused for it must not cost the workspace's others theirs.
	if wait := l.wait(slot{key: instance}, limits.InstanceRate, limits.InstanceBurst); wait > 0 {
		return nil, tooMany(causeRate, fmt.Sprintf("the instance gets more than %d requests per second (%d at once)", limits.InstanceRate, limits.InstanceBurst), wait)
	}
	if wait := l.wait(slot{key: workspace, workspace: true}, limits.WorkspaceRate, limits.WorkspaceBurst); wait > 0 {
		return nil, tooMany(causeRate, fmt.Sprintf("the workspace starts more than %d requests per second (%d at once)", limits.WorkspaceRate, limits.WorkspaceBurst), wait)
	}
	own, all := slot{key: instance, stream: stream}, slot{key: workspace, workspace: true, stream: stream}
	ownLimit, allLimit := limits.InstanceRequests, limits.WorkspaceRequests
	cause, what := causeInFlight, "requests in flight"
	if stream {
		ownLimit, allLimit = limits.InstanceStreams, limits.WorkspaceStreams
		cause, what = causeStreams, "streams"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight[own] >= ownLimit {
		return nil, tooMany(cause, fmt.Sprintf("the instance has %d %s, which is its limit: end some first", ownLimit, what), time.Second)
	}
	if l.inFlight[all] >= allLimit {
		return nil, tooMany(cause, fmt.Sprintf("the workspace has %d %s, which is its limit: end some first", allLimit, what), time.Second)
	}
	l.inFlight[own]++
	l.inFlight[all]++
	return (&admission{limiter: l, slots: [2]slot{own, all}}).release, nil
}

// admission holds the slots of one request.
type admission struct {
	limiter  *limiter
	slots    [2]slot
	released bool
}

// release gives the slots back; a second call must not give back another's.
func (a *admission) release() {
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.released {
		return
	}
	a.released = true
	for _, s := range a.slots {
		if l.inFlight[s]--; l.inFlight[s] == 0 {
			delete(l.inFlight, s)
		}
	}
}

// wait tells how long a workspace or an instance must wait until its next request may start; zero
// for not at all.
func (l *limiter) wait(of slot, perSecond, burst int) time.Duration {
	bucket, ok := l.rates.Get(of)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(perSecond), burst)
		if other, found, _ := l.rates.PeekOrAdd(of, bucket); found {
			bucket = other
		}
	}
	keepUp(bucket, perSecond, burst)
	if bucket.Allow() {
		return 0
	}
	reservation := bucket.Reserve()
	delay := reservation.Delay()
	if delay > 0 {
		reservation.Cancel()
	}
	return delay
}

// keepUp brings a bucket up to date with limits that may have changed since it was made.
func keepUp(bucket *rate.Limiter, perSecond, burst int) {
	if bucket.Limit() != rate.Limit(perSecond) {
		bucket.SetLimit(rate.Limit(perSecond))
	}
	if bucket.Burst() != burst {
		bucket.SetBurst(burst)
	}
}
