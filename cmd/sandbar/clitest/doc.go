// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package clitest has what tests of commands share: a workspace and a data plane to run command lines against, a
// terminal to run them at, and golden files. All of it is for Linux.
package clitest
