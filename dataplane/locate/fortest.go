// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package locate

import (
	"context"

	"k8s.io/client-go/tools/cache"
)

// What follows lets tests of the data plane as a whole change what has been read, as an API server that
// serves another schema does.

// TemplatesForTest is what has been read of Templates; RebuildForTest takes a change of it over.
func (k *Kinds) TemplatesForTest() cache.Store { return k.templates.GetStore() }

// RebuildForTest is what a change of a Template brings about.
func (k *Kinds) RebuildForTest(ctx context.Context) { k.rebuild(ctx) }

// RenewForTest has the Templates listed again.
func (k *Kinds) RenewForTest() { k.source.Renew() }

// StoreForTest is what has been read of a kind's instances.
func (i *Instances) StoreForTest() cache.Store { return i.informer.GetStore() }
