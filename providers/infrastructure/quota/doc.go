// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package quota knows how much one placement may use: it completes what the operator set in
// InfrastructureProvider.spec.quota with the defaults and finds contradictions. It is pure; the
// instance controller builds each placement's ResourceQuota and LimitRange from it, and the
// platform controller reports what is wrong with it.
package quota
