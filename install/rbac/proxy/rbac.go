// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy states the rights of the proxies in front of Services of a Baseline, in their namespace: they read what they are to
// do, and nothing else.
// It has markers and no code; make generate makes the rules of Role sandbar-proxy of them. The namespace interception stands for each
// of those in which sandbar-provider baseline grant applies the Role.
package proxy

// +kubebuilder:rbac:groups=core,resources=configmaps,resourceNames=sandbar-proxy,verbs=get;list;watch,namespace=interception
