// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package clone makes a copy of a workload of a Baseline, changed as the component of a SandboxGroup says.
//
// In: the workload as the runtime cluster has it (Freeze), then what was frozen, the component, and the Baseline's rules
// (Render). Out: a Deployment, a Service and PersistentVolumeClaims for a placement, the names of what has to be copied
// beside them, and notes for the tenant. Errors that another component, Baseline or workload would not have are a
// *RefusedError, whose reason is that of a condition; its message names the field and the remedy. Any other error is a
// mistake of the caller.
//
// The package is pure: it reads neither a clock nor a server, and equal input has equal output.
//
//	source.go      which workload it is (Source), and where its pod template is (WorkloadRef)
//	freeze.go      what is kept of it (Snapshot)
//	encode.go      the snapshot as bytes, within bounds
//	render.go      the order of a render
//	overrides.go   what the overrides change
//	patch.go       what the JSON patch changes, within bounds
//	volumes.go     what stands in the place of persistent volumes
//	references.go  which ConfigMaps and Secrets a pod refers to, and which of them it may
//	images.go      which images are admitted
//	fields.go      which fields of a pod a tenant may change
//	narrow.go      by which values
//	walk.go        the comparison with the workload that applies them
//	host.go        what no copy may have, whether of the workload or of the tenant
//	nodes.go       on which nodes, and with which DNS names
//	metadata.go    labels and annotations
//	ports.go       which ports the Service has
//	service.go     the Service
//	id.go          the ID of a sandbox
//
// Two rules of the design carry the rest (docs/adr/0055-copies-of-workloads.md). What a workload has, its operator has
// chosen: it stays. What a tenant changes is compared with the workload after all changes are made, so that no order of
// overrides and patches gets around a check.
package clone
