// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// DataPlaneLimits bound what one instance, one workspace, one caller and one data plane server
// may use. What is not set has its default. Each replica of the data plane counts for itself.
// docs/limits.md says of each what a caller sees at the limit and what counts it.
type DataPlaneLimits struct {
	// InstanceRequests is how many requests of one instance are in flight. Defaults to 64.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	InstanceRequests int32 `json:"instanceRequests,omitempty"`

	// InstanceStreams is how many streams and upgraded connections one instance has. Defaults
	// to 32.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	InstanceStreams int32 `json:"instanceStreams,omitempty"`

	// InstanceHeld is how many requests wait for one instance to wake. Defaults to 64.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	InstanceHeld int32 `json:"instanceHeld,omitempty"`

	// ServerHeld is how many requests wait for instances to wake in all. Defaults to 4096.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	ServerHeld int32 `json:"serverHeld,omitempty"`

	// InstanceRate is how many requests per second one instance may get, over time.
	// Defaults to 250.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	InstanceRate int32 `json:"instanceRate,omitempty"`

	// InstanceBurst is how many requests one instance may get at once. Defaults to 1000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	InstanceBurst int32 `json:"instanceBurst,omitempty"`

	// WorkspaceRequests is how many requests of one workspace are in flight. Defaults to 256.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	WorkspaceRequests int32 `json:"workspaceRequests,omitempty"`

	// WorkspaceStreams is how many streams and upgraded connections one workspace has.
	// Defaults to 256.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	WorkspaceStreams int32 `json:"workspaceStreams,omitempty"`

	// WorkspaceRate is how many requests per second one workspace may start, over time.
	// Defaults to 500.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	WorkspaceRate int32 `json:"workspaceRate,omitempty"`

	// WorkspaceBurst is how many requests one workspace may start at once. Defaults to 1000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	WorkspaceBurst int32 `json:"workspaceBurst,omitempty"`

	// WorkspaceClaimRate is how many Sandboxes the verb claim may make in one workspace per second,
	// over time. Defaults to 50.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	WorkspaceClaimRate int32 `json:"workspaceClaimRate,omitempty"`

	// WorkspaceClaimBurst is how many it may make there at once. Defaults to 200.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	WorkspaceClaimBurst int32 `json:"workspaceClaimBurst,omitempty"`

	// CallerClaimRate is how many Sandboxes the verb claim may make for one caller per second, over
	// time, in all workspaces; it is below workspaceClaimRate, so that no caller takes it all. The
	// service accounts of a workspace are one caller. Defaults to 25.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	CallerClaimRate int32 `json:"callerClaimRate,omitempty"`

	// CallerClaimBurst is how many it may make for one caller at once. Defaults to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	CallerClaimBurst int32 `json:"callerClaimBurst,omitempty"`

	// DeniedRate is how many questions to kcp that end with no (401, 403, 404) one caller may
	// cause per second, over time. A caller is the user whose token it is, as kcp says, or that a
	// front proxy or a preview link vouches for; the service accounts of a workspace are one caller.
	// Defaults to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	DeniedRate int32 `json:"deniedRate,omitempty"`

	// DeniedBurst is how many of these one caller may cause at once. Defaults to 1000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	DeniedBurst int32 `json:"deniedBurst,omitempty"`

	// UnverifiedRate is how many tokens that kcp does not know may come from one address per
	// second, over time; behind a hub many callers share one. Users who are known already do not
	// notice. Defaults to 500.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	UnverifiedRate int32 `json:"unverifiedRate,omitempty"`

	// UnverifiedBurst is how many of these may come at once. Defaults to 5000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	UnverifiedBurst int32 `json:"unverifiedBurst,omitempty"`

	// QuestionRate is how many questions to kcp one caller may cause per second, over time,
	// whatever the answer. An answer is kept for ten seconds, so a caller needs as many as it uses
	// instances and verbs in that time, for each of its tokens. Defaults to 500.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	QuestionRate int32 `json:"questionRate,omitempty"`

	// QuestionBurst is how many of these one caller may cause at once. Defaults to 5000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	QuestionBurst int32 `json:"questionBurst,omitempty"`

	// CallerQuestions is how many questions to kcp one caller has under way. It is below the
	// server's own bound (--authorization-concurrency, 256), so that no caller takes it all.
	// Defaults to 128.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	CallerQuestions int32 `json:"callerQuestions,omitempty"`

	// BodyBytes is the largest body of a request, in bytes. Defaults to 67108864 (64 MiB).
	//
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1099511627776
	// +optional
	BodyBytes int64 `json:"bodyBytes,omitempty"`

	// HeaderBytes is the largest header of a request, in bytes. Takes effect when the data
	// plane restarts. Defaults to 32768 (32 KiB).
	//
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=1048576
	// +optional
	HeaderBytes int32 `json:"headerBytes,omitempty"`

	// Connections is how many connections of callers one server holds; more wait to be
	// accepted. An upgraded connection counts as a stream instead. Defaults to 10000.
	//
	// +kubebuilder:validation:Minimum=16
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Connections int32 `json:"connections,omitempty"`

	// ConnectionsPerAddress is how many of them come from one address (for IPv6, from one /64
	// network); more are closed at once. A load balancer that hides its clients' addresses is
	// one address. Defaults to 5000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	ConnectionsPerAddress int32 `json:"connectionsPerAddress,omitempty"`

	// HTTP2Streams is how many requests one HTTP/2 connection carries at once. Takes effect
	// when the data plane restarts. Defaults to 100.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	HTTP2Streams int32 `json:"http2Streams,omitempty"`

	// ReadHeaderTimeoutSeconds bounds how long a client takes to send a header. Takes effect
	// when the data plane restarts. Defaults to 10.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=120
	// +optional
	ReadHeaderTimeoutSeconds int32 `json:"readHeaderTimeoutSeconds,omitempty"`

	// IdleTimeoutSeconds bounds how long a connection without requests is kept. Takes effect
	// when the data plane restarts. Defaults to 90.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	IdleTimeoutSeconds int32 `json:"idleTimeoutSeconds,omitempty"`

	// StallTimeoutSeconds bounds how long a client may make no progress while it sends a body
	// or takes an answer. It is no limit on how long either lasts. Defaults to 60.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	StallTimeoutSeconds int32 `json:"stallTimeoutSeconds,omitempty"`

	// ResponseTimeoutSeconds bounds how long a pod may take to begin its answer; streams have
	// no such limit. Defaults to 60.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	ResponseTimeoutSeconds int32 `json:"responseTimeoutSeconds,omitempty"`

	// StreamIdleSeconds bounds how long an upgraded connection carries nothing either way. A
	// followed log has no such limit. Defaults to 3600.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StreamIdleSeconds int32 `json:"streamIdleSeconds,omitempty"`

	// StreamDurationSeconds bounds how long a stream lasts. Defaults to 86400.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	// +optional
	StreamDurationSeconds int32 `json:"streamDurationSeconds,omitempty"`

	// KcpToleranceSeconds bounds how long a request that lasts outlives a kcp that does not
	// answer whether its caller still may. Defaults to 300.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	KcpToleranceSeconds int32 `json:"kcpToleranceSeconds,omitempty"`

	// ActivityIntervalSeconds is how often the use of an instance that is in use is recorded, and
	// so by how much the time of its last use may lag. An instance sleeps, or is deleted for being
	// unused, up to that and 45 seconds later than its lifecycle says. Defaults to 60.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	ActivityIntervalSeconds int32 `json:"activityIntervalSeconds,omitempty"`
}
