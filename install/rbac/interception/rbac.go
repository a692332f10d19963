// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package interception states the rights of sandbar-provider controllers in a namespace of a Baseline that admits proxies in front of
// its Services (spec.routing.proxy), in addition to those of package baseline. The admission policy sandbar-interception
// (install/manifests/runtime/55-interception.yaml) says what RBAC cannot: which change of a Service, and which pods.
// It has markers and no code; make generate makes the rules of Role sandbar-interception of them. The namespace interception stands for
// each of those in which sandbar-provider baseline grant applies the Role.
package interception

// The selector of a Service that is intercepted, and the Service that has its original pods (pkg/intercept/selector.go and render.go).
// +kubebuilder:rbac:groups=core,resources=services,verbs=get;create;update;patch;delete,namespace=interception

// The proxies (pkg/intercept/render.go).
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;create;update;delete,namespace=interception
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;update;delete,namespace=interception

// What the proxies do, and what routes ask (providers/infrastructure/interception/store.go). grant creates both, so that nobody
// has to have the right to create others.
// +kubebuilder:rbac:groups=core,resources=configmaps,resourceNames=sandbar-proxy;sandbar-proxy-routes,verbs=get;patch,namespace=interception

// Whether the original pods are ready, and whether requests reach them again.
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch,namespace=interception
