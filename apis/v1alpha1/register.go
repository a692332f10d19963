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

// builtInTypes are the types of the kinds that package builtin lists or will list, and of their lists. Each file with such a
// type adds its own.
var builtInTypes []runtime.Object

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Template{}, &TemplateList{},
		&InfrastructureProvider{}, &InfrastructureProviderList{},
		&Baseline{}, &BaselineList{},
	)
	s.AddKnownTypes(GroupVersion, builtInTypes...)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
