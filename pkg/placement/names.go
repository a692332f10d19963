// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package placement

// Labels and annotations on the namespace of a placement, on the kro instance in it and on
// every object that the provider or a graph puts beside it.
const (
	// LabelInstanceUID holds the placement's UID. Only objects that carry it may be reached through the
	// data plane.
	LabelInstanceUID = "sandbar.dev/instance-uid"
	// LabelCluster holds the name of the logical cluster that the placement was made in.
	LabelCluster = "sandbar.dev/cluster"
	// LabelTemplate holds the name of the Template that defines the instance's kind.
	LabelTemplate = "sandbar.dev/template"
	// LabelManagedBy and ManagedBy mark what the provider itself wrote.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "sandbar"

	// LabelPurpose is on a namespace of the provider's that has the name of a placement and is none: PurposeTries
	// for the one in which pods are tried in dry runs.
	LabelPurpose = "sandbar.dev/purpose"
	PurposeTries = "dry-runs"

	// LabelOwnerUID and LabelOwnerCluster, on the namespace alone, tell which object of a tenant the
	// placement stands for: its UID and its logical cluster.
	LabelOwnerUID     = "sandbar.dev/owner-uid"
	LabelOwnerCluster = "sandbar.dev/owner-cluster"
	// AnnotationInstanceNamespace and AnnotationInstanceName, on the namespace alone, tell where that
	// object is; they are annotations because a name may be longer than a label value.
	AnnotationInstanceNamespace = "sandbar.dev/instance-namespace"
	AnnotationInstanceName      = "sandbar.dev/instance-name"
	// AnnotationWorkspacePath, on the namespace alone, is the workspace's path at the time of placing, for
	// people.
	AnnotationWorkspacePath = "sandbar.dev/workspace-path"
	// LabelProject and LabelVisibility, AnnotationDisplayName, AnnotationOwner and AnnotationTags, on the
	// namespace alone, are how the tenant describes its object, for the operator's bills and policies.
	LabelProject          = "sandbar.dev/project"
	LabelVisibility       = "sandbar.dev/visibility"
	AnnotationDisplayName = "sandbar.dev/display-name"
	AnnotationOwner       = "sandbar.dev/owner"
	AnnotationTags        = "sandbar.dev/tags"
	// LabelSetUID and LabelMemberState, on the namespace of a placement that has no owner yet, tell which
	// SandboxSet keeps it, by its UID, and how far it is. Adoption takes them off.
	LabelSetUID      = "sandbar.dev/set-uid"
	LabelMemberState = "sandbar.dev/member-state"
	// LabelTemplateRevision and LabelMemberPatch, on that namespace as well, tell that a member was made with the
	// patch of its set: Member.Template and Member.Patch. Adoption takes them off.
	LabelTemplateRevision = "sandbar.dev/template-revision"
	LabelMemberPatch      = "sandbar.dev/member-patch"
	// AnnotationSetNamespace and AnnotationSetName, on that namespace, tell where the set is. They stay
	// after the adoption.
	AnnotationSetNamespace = "sandbar.dev/set-namespace"
	AnnotationSetName      = "sandbar.dev/set-name"
	// AnnotationAdoptedAt, on the namespace of an adopted placement, is when that was (RFC 3339 with
	// microseconds). It counts as a use of the instance: no other record of it was written then.
	AnnotationAdoptedAt = "sandbar.dev/adopted-at"
	// AnnotationPreviewsNotBefore is what a tenant writes on its instance: preview URLs that were
	// signed before this time (RFC 3339) are void.
	AnnotationPreviewsNotBefore = "sandbar.dev/previews-not-before"

	// AnnotationSuspension is on the kro instance while its spec.suspended is true and holds the
	// sandbarv1alpha1.SuspensionCause. The data plane wakes an instance only if this says Unused.
	AnnotationSuspension = "sandbar.dev/suspension"

	// LabelGraph, on the kro instance, is the revision of the Template's graph that it is composed
	// with (package revision).
	LabelGraph = "sandbar.dev/graph"
	// LabelRevision, on the kro instance and on the ConfigMap with the platform's values, is the
	// whole revision; on the namespace of a member it is Member.Revision.
	LabelRevision = "sandbar.dev/revision"
	// AnnotationUpdating is on the kro instance while it takes a change of the operator: since when,
	// if the instance was Ready before, or its pod is refused with the change.
	AnnotationUpdating = "sandbar.dev/updating-since"
	// AnnotationEnding is on the ActivityLease while the controllers are about to delete the instance
	// for being unused. Until it is gone the data plane lets nobody use the instance.
	AnnotationEnding = "sandbar.dev/ending"

	// LabelReplica is on the Lease of each replica of the data plane and holds the id of its
	// process, which is another after each start.
	LabelReplica = "sandbar.dev/replica"
	// AnnotationProvider holds the logical cluster of the provider workspace that made a placement, and on the
	// provider's own namespace that of the provider. Two providers that share a runtime cluster would otherwise
	// sweep away each other's placements, and serve each other's tenants.
	AnnotationProvider = "sandbar.dev/provider"
	// LabelProviderName is on the graphs of a provider that has a name on the runtime cluster (Names), and holds it.
	LabelProviderName = "sandbar.dev/provider-name"

	// AnnotationAllowDeletion, with the value "true" on a ResourceGraphDefinition or on a
	// CustomResourceDefinition of the group of instances, lets an administrator delete it, and with it
	// all instances of the kind with their data (install/manifests/runtime/60-deletion.yaml).
	AnnotationAllowDeletion = "sandbar.dev/allow-deletion"

	// AnnotationControlKey is on a ControlSecret whose token is derived and names the entry of
	// ControlKeysSecret that made it. A token without it was made up and cannot be made again.
	AnnotationControlKey = "sandbar.dev/control-key"

	// LabelClaim is on a tenant's Sandbox that a SandboxClaim of its namespace has made, and holds the claim's name;
	// AnnotationClaimUID holds its UID. The label finds such a Sandbox, the annotation says whose it is.
	LabelClaim         = "sandbar.dev/claim"
	AnnotationClaimUID = "sandbar.dev/claim-uid"

	// AnnotationCompoundUID is on the part of a compound instance (Template.spec.compound), such as the SandboxGroup of a
	// Sandbox, and holds the UID of that instance: also a part whose owner reference somebody has removed says whose it is.
	AnnotationCompoundUID = "sandbar.dev/compound-uid"

	// AnnotationBaseline is on the Namespace of a placement of copies, and holds the name of the Baseline that they are of. It
	// is written once: the Namespace has the pod security level and the network of that Baseline.
	AnnotationBaseline = "sandbar.dev/baseline"

	// LabelRouteUID is on an HTTPRoute that is made of a tenant's SandboxRoute, and holds its UID; AnnotationRouteCluster,
	// AnnotationRouteNamespace and AnnotationRouteName tell where that is.
	LabelRouteUID            = "sandbar.dev/route-uid"
	AnnotationRouteCluster   = "sandbar.dev/route-cluster"
	AnnotationRouteNamespace = "sandbar.dev/route-namespace"
	AnnotationRouteName      = "sandbar.dev/route-name"

	// LabelIntercepts is on all that stands for a Service with proxies in front (package intercept), and holds the Service's name; the
	// selector of that Service asks for it, too.
	LabelIntercepts = "sandbar.dev/intercepts"

	// AnnotationIdempotencyKey is on a SandboxClaim, or on a Sandbox that the verb claim has made, and holds the key
	// with which it was asked for; LabelIdempotencyKey holds the key's hash (package idempotency) and finds it.
	// AnnotationClaimRequest, on such a Sandbox, holds a hash of what else was asked for.
	AnnotationIdempotencyKey = "sandbar.dev/idempotency-key"
	LabelIdempotencyKey      = "sandbar.dev/idempotency-key-hash"
	AnnotationClaimRequest   = "sandbar.dev/claim-request"

	// LabelSandboxID and LabelComponent are on all that is made of a component of a SandboxGroup: the ID by which
	// requests are routed to the group, and the component's name.
	LabelSandboxID = "sandbar.dev/sandbox-id"
	LabelComponent = "sandbar.dev/component"

	// LabelSessionUID and LabelDevelops are on all that is made of a DevSession: its UID, and the name of the component that it is
	// about. What has them does not have LabelComponent, by which the pods of the copy are chosen.
	LabelSessionUID = "sandbar.dev/dev-session-uid"
	LabelDevelops   = "sandbar.dev/develops"

	// Finalizer is on every tenant's instance that has, or may have, a placement.
	Finalizer = "sandbar.dev/placement"
)

// Names of objects that every placement or the provider has.
const (
	// SystemNamespace is the provider's own namespace in its workspace, and on the runtime cluster unless it has a
	// name there (Names). Authors of graphs always write this one.
	SystemNamespace = "sandbar-system"
	// NetworkCheckNamespace is where the controllers of a provider without a name try whether network policies hold.
	NetworkCheckNamespace = "sandbar-netcheck"
	// PlatformConfigMap holds the operator's values for graphs, in SystemNamespace.
	PlatformConfigMap = "sandbar-platform"
	// PreviewKeysSecret holds the keys of preview links and sessions, in SystemNamespace. The
	// name of an entry is the key's; the one that sorts last is used for what is new.
	PreviewKeysSecret = "sandbar-preview-keys"
	// ControlKeysSecret holds the keys that control tokens are derived from, in SystemNamespace. The
	// name of an entry is the key's; the one that sorts last makes the tokens, the one before it
	// the former ones.
	ControlKeysSecret = "sandbar-control-keys"
	// DataPlaneLease is a Lease in SystemNamespace that all replicas of the data plane share. While
	// at least one of them serves, its renewTime is young. Its acquireTime is since when time counts
	// as unused: since when one has served without a gap, or since the controllers last had to
	// start again.
	DataPlaneLease = "sandbar-serving"
	// FormerDataPlaneLease is what DataPlaneLease was called when one Lease stood for all replicas.
	// Only a replica of that version renews it.
	FormerDataPlaneLease = "sandbar-dataplane"
	// ReplicaLeasePrefix begins the names of the Leases in SystemNamespace that each replica of the
	// data plane has of its own, with the label LabelReplica.
	ReplicaLeasePrefix = "sandbar-dataplane-"
	// ActivityLease is a Lease in each placement. Its renewTime is when the instance was last used,
	// and its leaseDurationSeconds for how long it may be used until that is recorded again. The
	// controllers make it, the data plane writes it before it lets a request through.
	ActivityLease = "sandbar-activity"
	// SnapshotsConfigMap is the ConfigMap in a placement of copies that holds what was frozen of their workloads, and the ID
	// by which requests are routed to them (package frozen).
	SnapshotsConfigMap = "sandbar-snapshots"
	// ControlSecret is the Secret in each placement that holds the control token.
	ControlSecret = "sandbar-control"
	// ControlTokenKey is the key of the token in ControlSecret, ControlPreviousKey that of the one
	// before it, which is there during a rotation.
	ControlTokenKey    = "token"
	ControlPreviousKey = "previous"
	// PasswordSecret is the Secret with a password for what a graph runs, a database above all.
	// It is in the placements of those kinds whose graph names it.
	PasswordSecret = "sandbar-password"
	// PasswordKey is the key of the password in PasswordSecret.
	PasswordKey = "password"
	// LogSecret is the Secret with the end of the log of an instance that was suspended (package
	// keptlog).
	LogSecret = "sandbar-log"
	// BindingSecret is the Secret with the variables that an instance has of its own. It is made once and never changed.
	BindingSecret = "sandbar-binding"
	// LabelShare and Shared are what a tenant puts on a Secret of its own to share it with the provider.
	LabelShare = "sandbar.dev/share"
	Shared     = "true"
)
