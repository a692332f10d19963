// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package doctor examines a provider with an administrator's rights in its workspace and on its runtime
// cluster, and says what is wrong and what to do. It changes nothing on either side. What only a pod can
// find out (whether network policies hold, whether a name resolves, whether kro composes) the controllers
// try all the time, and doctor reads what they found and how old that is.
package doctor
