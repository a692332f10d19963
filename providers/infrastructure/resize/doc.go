// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package resize knows how the resources of a running pod are changed: which changes Kubernetes makes in place, what to ask
// the subresource resize for, and what the kubelet has made of it. It is pure.
//
//	possible.go   whether a pod can get the resources of another one without a restart
//	running.go    what to ask for, and how far the kubelet is
package resize
