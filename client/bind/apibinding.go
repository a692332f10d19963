// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var apiBindings = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}

// apiBinding has the fields of kcp's APIBinding that this package reads. kcp's own types would bring their module into
// every program that uses package client.
type apiBinding struct {
	Spec struct {
		Reference struct {
			Export *struct {
				Path string `json:"path"`
				Name string `json:"name"`
			} `json:"export"`
		} `json:"reference"`
		PermissionClaims []givenClaim `json:"permissionClaims"`
	} `json:"spec"`
	Status struct {
		Phase          string `json:"phase"`
		BoundResources []struct {
			Group    string `json:"group"`
			Resource string `json:"resource"`
		} `json:"boundResources"`
		Conditions             []metav1.Condition `json:"conditions"`
		ExportPermissionClaims []askedClaim       `json:"exportPermissionClaims"`
	} `json:"status"`
}

// askedClaim is a claim as an export has it.
type askedClaim struct {
	Group        string   `json:"group"`
	Resource     string   `json:"resource"`
	IdentityHash string   `json:"identityHash"`
	Verbs        []string `json:"verbs"`
}

// givenClaim is a claim with the decision of the workspace's owner.
type givenClaim struct {
	Group        string   `json:"group"`
	Resource     string   `json:"resource"`
	IdentityHash string   `json:"identityHash"`
	Verbs        []string `json:"verbs"`
	State        string   `json:"state"`
	Selector     struct {
		MatchAll bool `json:"matchAll"`
	} `json:"selector"`
}

const (
	accepted = "Accepted"
	rejected = "Rejected"
)

func (c askedClaim) claim() Claim {
	return Claim{Group: c.Group, Resource: c.Resource, Verbs: c.Verbs, IdentityHash: c.IdentityHash}
}

func (c givenClaim) claim() Claim {
	return Claim{Group: c.Group, Resource: c.Resource, Verbs: c.Verbs, IdentityHash: c.IdentityHash}
}

func readBinding(obj *unstructured.Unstructured) (*apiBinding, error) {
	b := &apiBinding{}
	return b, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, b)
}

// condition is the condition of a type; nil if there is none yet.
func (b *apiBinding) condition(kind string) *metav1.Condition {
	for i := range b.Status.Conditions {
		if b.Status.Conditions[i].Type == kind {
			return &b.Status.Conditions[i]
		}
	}
	return nil
}

// asObject is the claim as an APIBinding has it that accepts it.
func (c Claim) asObject() map[string]any {
	verbs := make([]any, 0, len(c.Verbs))
	for _, v := range c.Verbs {
		verbs = append(verbs, v)
	}
	obj := map[string]any{
		"group": c.Group, "resource": c.Resource, "verbs": verbs,
		"selector": map[string]any{"matchAll": true}, "state": accepted,
	}
	if c.IdentityHash != "" {
		obj["identityHash"] = c.IdentityHash
	}
	return obj
}
