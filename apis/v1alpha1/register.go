// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of everything that Sandbar defines.
const GroupName = "sandbar.dev"

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds the types of this package to a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Template{}, &TemplateList{},
		&InfrastructureProvider{}, &InfrastructureProviderList{},
		&SandboxTemplate{}, &SandboxTemplateList{},
		&SandboxSet{}, &SandboxSetList{},
		&SandboxClaim{}, &SandboxClaimList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
