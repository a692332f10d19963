// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// Grants are the ReferenceGrants by which the HTTPRoutes of a placement may lead to Services of other namespaces: one for each
// Service, in the Service's namespace. Each is as wide as one Service, from the HTTPRoutes of one namespace. services are those
// of all SandboxRoutes of the placement (Rendered.Granted), each once.
//
// A grant without the name of a Service would open all Services of the Baseline's namespace to the placement, also those that
// the Baseline leaves out.
func Grants(namespace string, services []types.NamespacedName, labels map[string]string) ([]*unstructured.Unstructured, error) {
	if !placement.IsNamespace(namespace) {
		return nil, errors.New("ReferenceGrants are from the namespace of a placement")
	}
	var grants []*unstructured.Unstructured
	for _, service := range services {
		if err := checkGranted(service.Namespace); err != nil {
			return nil, err
		}
		if len(validation.IsDNS1035Label(service.Name)) > 0 {
			return nil, errors.New("a ReferenceGrant is for one Service, and needs its name")
		}
		all := maps.Clone(labels)
		if all == nil {
			all = map[string]string{}
		}
		all[placement.LabelManagedBy] = placement.ManagedBy
		grant, err := object(ReferenceGrantGVK, metav1.ObjectMeta{Namespace: service.Namespace, Name: GrantName(namespace, service.Name), Labels: all}, grantSpec{
			From: []grantFrom{{Group: GatewayGroup, Kind: HTTPRouteGVK.Kind, Namespace: namespace}},
			To:   []grantTo{{Kind: kindService, Name: service.Name}},
		})
		if err != nil {
			return nil, err
		}
		grants = append(grants, grant)
	}
	return grants, nil
}

// GrantName is the name of the ReferenceGrant from a placement to a Service. A placement's namespace always has the same
// length, so that no two pairs have one name.
func GrantName(namespace, service string) string { return namespace + "-" + service }
