// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package syncwire is what a client and the runner say to each other when files are
// synced: what lies at a path ([Entry]), the frames of a batch ([Encoder],
// [Decoder]), and how a large file is cut into chunks that both sides find alike
// ([Chunker]).
//
// # A batch
//
// A batch is a stream of frames. A frame is one line of JSON; a data frame is
// followed by as many raw bytes as it says. The first frame begins the batch, the
// last one ends it and counts the entries between, so that a stream that was cut is
// never taken for a whole one.
//
//	{"op":"begin","version":1,"revision":7,"restart":"auto"}
//	{"op":"file","path":"a.ts","size":5,"digest":"2cf2…","expect":{"type":"none"}}
//	{"op":"data","length":5}
//	hello{"op":"file","path":"b.bin","size":9000000,"digest":"77ab…"}
//	{"op":"copy","path":"b.bin","offset":0,"length":8000000}
//	{"op":"data","length":1000000}
//	…{"op":"symlink","path":"l","target":"a.ts"}
//	{"op":"dir","path":"empty"}
//	{"op":"delete","path":"old.ts","expect":{"type":"file","digest":"91bc…"}}
//	{"op":"end","entries":5}
//
// A file is made of pieces until it has its size. A piece is data, or a range of a
// file that the workspace had before the batch: the same file for a delta, another
// for a rename. The digest is checked over the whole, so a copy from a file that
// has changed meanwhile is noticed and never written.
//
// # Content that one request cannot carry
//
// A stream with a stage frame changes nothing in the workspace. It adds a part of a content, made
// of data and copies, to what waits under the digest of the whole; a part whose stream is cut
// counts as far as it came. Once the whole is there and has its digest, a file of a batch takes
// it.
//
//	{"op":"begin","version":1}
//	{"op":"stage","digest":"77ab…","size":3000000000,"offset":33554432,"length":33554432}
//	{"op":"data","length":262144}
//	…
//	{"op":"end","entries":1}
//
//	{"op":"file","path":"model.bin","size":3000000000,"digest":"77ab…","staged":true}
//
// # Golden files
//
// testdata has batches, the runner's answers, and names.json with the numbers and names. Tests of this
// package, the runner and the client read these files; other SDKs' tests can too. Programs import the
// package as syncwire, because package sync is the standard library's.
//
// # Boundary
//
// The package depends on the standard library alone and builds everywhere, because
// clients do not run on Linux only. It checks the form of frames; what a path may
// name is the workspace's to say.
package syncwire
