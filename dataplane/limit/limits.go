// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
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
	// WorkspaceClaimRate is how many Sandboxes the verb claim may make in one workspace per
	// second, over time. Defaults to 50.
	WorkspaceClaimRate int
	// WorkspaceClaimBurst is how many it may make there at once. Defaults to 200.
	WorkspaceClaimBurst int
	// CallerClaimRate is how many Sandboxes the verb claim may make for one caller per second,
	// over time, in all workspaces. Defaults to 25.
	CallerClaimRate int
	// CallerClaimBurst is how many it may make for one caller at once. Defaults to 100.
	CallerClaimBurst int
	// DeniedRate is how many questions to kcp that end with no one caller may cause per
	// second, over time: one user, or the service accounts of one workspace.
	// Defaults to 100.
	DeniedRate int
	// DeniedBurst is how many of these it may cause at once. Defaults to 1000.
	DeniedBurst int
	// UnverifiedRate is how many tokens that kcp does not know may come from one address per
	// second, over time. Defaults to 500.
	UnverifiedRate int
	// UnverifiedBurst is how many of these may come at once. Defaults to 5000.
	UnverifiedBurst int
	// QuestionRate is how many questions to kcp one caller may cause per second, over time,
	// whatever the answer. Defaults to 500.
	QuestionRate int
	// QuestionBurst is how many of these it may cause at once. Defaults to 5000.
	QuestionBurst int
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

// SetDefaults fills in what is not set.
func (l *Limits) SetDefaults() {
	l.InstanceRequests = cmp.Or(l.InstanceRequests, 64)
	l.InstanceStreams = cmp.Or(l.InstanceStreams, 32)
	l.InstanceHeld = cmp.Or(l.InstanceHeld, 64)
	l.ServerHeld = cmp.Or(l.ServerHeld, 4096)
	l.InstanceRate = cmp.Or(l.InstanceRate, 250)
	l.InstanceBurst = cmp.Or(l.InstanceBurst, 1000)
	l.WorkspaceRequests = cmp.Or(l.WorkspaceRequests, 256)
	l.WorkspaceStreams = cmp.Or(l.WorkspaceStreams, 256)
	l.WorkspaceRate = cmp.Or(l.WorkspaceRate, 500)
	l.WorkspaceBurst = cmp.Or(l.WorkspaceBurst, 1000)
	l.WorkspaceClaimRate = cmp.Or(l.WorkspaceClaimRate, 50)
	l.WorkspaceClaimBurst = cmp.Or(l.WorkspaceClaimBurst, 200)
	l.CallerClaimRate = cmp.Or(l.CallerClaimRate, 25)
	l.CallerClaimBurst = cmp.Or(l.CallerClaimBurst, 100)
	l.DeniedRate = cmp.Or(l.DeniedRate, 100)
	l.DeniedBurst = cmp.Or(l.DeniedBurst, 1000)
	l.UnverifiedRate = cmp.Or(l.UnverifiedRate, 500)
	l.UnverifiedBurst = cmp.Or(l.UnverifiedBurst, 5000)
	l.QuestionRate = cmp.Or(l.QuestionRate, 500)
	l.QuestionBurst = cmp.Or(l.QuestionBurst, 5000)
	l.CallerQuestions = cmp.Or(l.CallerQuestions, 128)
	l.BodyBytes = cmp.Or(l.BodyBytes, 64<<20)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 32<<10)
	l.Connections = cmp.Or(l.Connections, 10000)
	l.ConnectionsPerAddress = cmp.Or(l.ConnectionsPerAddress, 5000)
	l.HTTP2Streams = cmp.Or(l.HTTP2Streams, 100)
	l.ReadHeaderTimeout = cmp.Or(l.ReadHeaderTimeout, 10*time.Second)
	l.IdleTimeout = cmp.Or(l.IdleTimeout, 90*time.Second)
	l.StallTimeout = cmp.Or(l.StallTimeout, time.Minute)
	l.ResponseTimeout = cmp.Or(l.ResponseTimeout, time.Minute)
	l.StreamIdle = cmp.Or(l.StreamIdle, time.Hour)
	l.StreamDuration = cmp.Or(l.StreamDuration, 24*time.Hour)
	l.KcpTolerance = cmp.Or(l.KcpTolerance, 5*time.Minute)
	l.ActivityInterval = cmp.Or(l.ActivityInterval, time.Minute)
}

// Override takes over what an InfrastructureProvider sets.
func (l *Limits) Override(spec *sandbarv1alpha1.DataPlaneLimits) {
	for _, number := range []struct {
		limit *int
		spec  int32
	}{
		{&l.InstanceRequests, spec.InstanceRequests},
		{&l.InstanceStreams, spec.InstanceStreams},
		{&l.InstanceHeld, spec.InstanceHeld},
		{&l.ServerHeld, spec.ServerHeld},
		{&l.InstanceRate, spec.InstanceRate},
		{&l.InstanceBurst, spec.InstanceBurst},
		{&l.WorkspaceRequests, spec.WorkspaceRequests},
		{&l.WorkspaceStreams, spec.WorkspaceStreams},
		{&l.WorkspaceRate, spec.WorkspaceRate},
		{&l.WorkspaceBurst, spec.WorkspaceBurst},
		{&l.WorkspaceClaimRate, spec.WorkspaceClaimRate},
		{&l.WorkspaceClaimBurst, spec.WorkspaceClaimBurst},
		{&l.CallerClaimRate, spec.CallerClaimRate},
		{&l.CallerClaimBurst, spec.CallerClaimBurst},
		{&l.DeniedRate, spec.DeniedRate},
		{&l.DeniedBurst, spec.DeniedBurst},
		{&l.UnverifiedRate, spec.UnverifiedRate},
		{&l.UnverifiedBurst, spec.UnverifiedBurst},
		{&l.QuestionRate, spec.QuestionRate},
		{&l.QuestionBurst, spec.QuestionBurst},
		{&l.CallerQuestions, spec.CallerQuestions},
		{&l.HeaderBytes, spec.HeaderBytes},
		{&l.Connections, spec.Connections},
		{&l.ConnectionsPerAddress, spec.ConnectionsPerAddress},
		{&l.HTTP2Streams, spec.HTTP2Streams},
	} {
		if number.spec != 0 {
			*number.limit = int(number.spec)
		}
	}
	for _, duration := range []struct {
		limit   *time.Duration
		seconds int32
	}{
		{&l.ReadHeaderTimeout, spec.ReadHeaderTimeoutSeconds},
		{&l.IdleTimeout, spec.IdleTimeoutSeconds},
		{&l.StallTimeout, spec.StallTimeoutSeconds},
		{&l.ResponseTimeout, spec.ResponseTimeoutSeconds},
		{&l.StreamIdle, spec.StreamIdleSeconds},
		{&l.StreamDuration, spec.StreamDurationSeconds},
		{&l.KcpTolerance, spec.KcpToleranceSeconds},
		{&l.ActivityInterval, spec.ActivityIntervalSeconds},
	} {
		if duration.seconds != 0 {
			*duration.limit = time.Duration(duration.seconds) * time.Second
		}
	}
	if spec.BodyBytes != 0 {
		l.BodyBytes = spec.BodyBytes
	}
}

// ByName lists the limits by their names in the InfrastructureProvider; durations in seconds.
func (l *Limits) ByName() map[string]float64 {
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
		"workspaceClaimRate":       float64(l.WorkspaceClaimRate),
		"workspaceClaimBurst":      float64(l.WorkspaceClaimBurst),
		"callerClaimRate":          float64(l.CallerClaimRate),
		"callerClaimBurst":         float64(l.CallerClaimBurst),
		"deniedRate":               float64(l.DeniedRate),
		"deniedBurst":              float64(l.DeniedBurst),
		"unverifiedRate":           float64(l.UnverifiedRate),
		"unverifiedBurst":          float64(l.UnverifiedBurst),
		"questionRate":             float64(l.QuestionRate),
		"questionBurst":            float64(l.QuestionBurst),
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

// Validate reports every limit that is none.
func (l *Limits) Validate() error {
	var errs []error
	for name, value := range l.ByName() {
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
