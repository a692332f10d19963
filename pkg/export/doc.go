// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package export is the APIExport as its provider sees it: through a virtual workspace on each shard
// of kcp that has a consumer.
//
// In go the name of an export, the provider's identity, and a kind that the export offers. Out come
//
//   - the endpoints of the export at one time (ReadEndpoints), and each as a Shard;
//   - a client for a workspace, or for all of them at once, at a shard (Shard.Resource), all pages of a
//     list (Pages), and the number of objects of a kind (Shard.Count);
//   - the objects of one kind in all workspaces on all shards (Objects): followed from Follow to Close,
//     read and written in their own workspace;
//   - a controller of one kind that starts and stops while the process runs, and gives each workspace its
//     share of the workers (Controller);
//   - the bindings of the export (Bindings): which workspaces there are, and which claims they accept;
//   - the proof that an object is gone (Ask, IsGone).
//
// Schemas have epochs: a schema changes while its objects live, and whatever was decoded under the former
// one lacks the fields of the next (ADR 2). Three rules keep an old epoch out, and this is their place:
//
//  1. What a watch keeps is metadata, which no schema shapes (Kind.Metadata).
//  2. A whole object is read in its own workspace, live. A list of all workspaces at once is read through
//     the schema of any one binding, so it says no more than which objects there are (EachAsItsTenant).
//  3. A write is validated strictly: a schema that is behind refuses a new field, and never drops it
//     (Objects.Patch).
//
// A cache that must hold whole objects, as the data plane's of the runtime cluster, begins its new epoch
// with package relist.
//
// No goroutine, informer or client exists per workspace. The package must never see a caller's credential: it
// acts as the provider, and decides about nobody's rights. It knows no Template and no placement.
package export
