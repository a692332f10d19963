// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package respond writes answers and reads bodies in a way that no caller can stall: each write and each
// read has its own deadline, everything is counted, and a caller that stopped is told from one that left.
//
// What enters is net/http's writer and request; what leaves is a writer for the steps and the numbers for
// those that record. It must never know what a request is about.
package respond
