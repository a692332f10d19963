// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package sandboxtemplate is the built-in kind SandboxTemplate: a tenant's own pod template.
//
//	register.go   offers the kind to tenants, and follows it where it is bound
//	schema.go     its schema, with that of a pod template in it
//	templates.go  reads SandboxTemplates of tenants
//	reconciler.go says in the status of each whether Sandboxes can be made of it
//	check.go      what there is to say of one
//	tries.go      tries pods
//
// In: the CustomResourceDefinition of package crds, the operator's settings and Templates. Out: an entry in
// the APIExport, conditions, and for the instance controllers what SandboxTemplates say. It makes nothing
// on the runtime cluster but a namespace in which pods are tried in dry runs.
package sandboxtemplate
