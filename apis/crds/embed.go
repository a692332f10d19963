// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package crds holds the generated CustomResourceDefinitions of Sandbar's own kinds.
package crds

import "embed"

// Files holds one YAML document for each kind of the provider workspace.
//
//go:embed sandbar.dev_baselines.yaml sandbar.dev_infrastructureproviders.yaml sandbar.dev_templates.yaml
var Files embed.FS

// All holds those and one for each built-in kind that tenants get with the export; package builtin names these.
//
//go:embed sandbar.dev_*.yaml
var All embed.FS
