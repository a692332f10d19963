// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package series makes the data plane's metrics, and finds a metric's series without a lock: labels are
// enumerations, so a table of them is small and soon complete.
package series
