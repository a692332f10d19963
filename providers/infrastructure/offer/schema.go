// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// hashLength is how many hexadecimal digits of the content's SHA-256 name a schema.
const hashLength = 8

// Schema makes the schema that offers a CustomResourceDefinition. Schemas are immutable in kcp, and
// named for their content here: the same definition makes the same name.
func Schema(crd *apiextensionsv1.CustomResourceDefinition, labels map[string]string) (*kcpapisv1alpha1.APIResourceSchema, error) {
	schema, err := kcpapisv1alpha1.CRDToAPIResourceSchema(crd, "v0")
	if err != nil {
		return nil, fmt.Errorf("making an APIResourceSchema of %s: %w", crd.Name, err)
	}
	content, err := json.Marshal(schema.Spec)
	if err != nil {
		return nil, fmt.Errorf("writing the APIResourceSchema of %s: %w", crd.Name, err)
	}
	sum := sha256.Sum256(content)
	schema.Name = "v" + hex.EncodeToString(sum[:])[:hashLength] + "." + crd.Name
	schema.Labels = labels
	return schema, nil
}

// Publish makes a schema exist. kcp's refusal of one is an error (apierrors.IsInvalid).
func (o *Offers) Publish(ctx context.Context, schema *kcpapisv1alpha1.APIResourceSchema) error {
	err := o.KCP.Get(ctx, types.NamespacedName{Name: schema.Name}, &kcpapisv1alpha1.APIResourceSchema{})
	if apierrors.IsNotFound(err) {
		err = o.KCP.Create(ctx, schema)
		if apierrors.IsAlreadyExists(err) {
			return nil // and the cache has not seen it
		}
	}
	if err != nil {
		return fmt.Errorf("publishing APIResourceSchema %s: %w", schema.Name, err)
	}
	return nil
}
