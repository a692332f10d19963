// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package limit has the budgets of the data plane: what one instance, one workspace, one caller and one
// server may use, their defaults and bounds, and the limiter that counts requests against them.
//
// What enters is the placement that a request is for, after kcp has let the caller through; what leaves is
// a release or a refusal. It must never see a request, a caller or a credential.
package limit
