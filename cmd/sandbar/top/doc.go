// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package top is the full-screen view of sandbar top: the sandboxes of a workspace by their state, the log or the
// description of the chosen one in a pane, and actions on keys.
//
// It has a Bubble Tea model and its view, and neither a network nor a terminal. Package main fills a [Feed] with
// what it watches, and does what the keys ask for as [Actions]. All texts of a server or a sandbox are made safe
// for a terminal where they enter this package: a [Row] in the list, a log and a description in a pane, and a
// message. Everything after that may be drawn.
package top
