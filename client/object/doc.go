// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package object works with the objects of a workspace as a person or an agent does: it finds the kinds that
// the workspace serves, lists and watches objects by labels, and changes them under the version that was read.
//
// It knows nothing of flags and terminals. Errors say what is wrong in one or two lines; their types and those
// of k8s.io/apimachinery/pkg/api/errors say which error it is. Texts of an object, such as the message of a
// condition, may come from inside a sandbox: escape them before they go to a terminal.
package object
