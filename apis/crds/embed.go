// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package crds holds the generated CustomResourceDefinitions of the provider workspace's kinds.
package crds

import "embed"

// Files holds one YAML document per kind.
//
//go:embed *.yaml
var Files embed.FS
