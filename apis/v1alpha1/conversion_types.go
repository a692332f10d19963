// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Conversion gives a field of instances that were made under a former schema the form that the present schema has.
type Conversion struct {
	// Field is the name of a field directly below spec, other than those of Sandbar's own.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][A-Za-z0-9_]*$`
	Field string `json:"field"`

	// Expression is CEL with Kubernetes' libraries, of the value that the field has, self, and its result is the field's
	// value: type(self) == string ? {'id': self} : self. A value that has the present form must be its own result.
	// null takes the field away. It is not evaluated for an instance without the field. If it fails, or costs more
	// than a rule of a schema may, the field stays as it is.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression string `json:"expression"`
}
