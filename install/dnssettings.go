// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// dnsPath is where the InfrastructureProvider has DNS, and dnsField its name for people.
var dnsPath = []string{"spec", "isolation", "egress", "dns"}

const dnsField = "spec.isolation.egress.dns"

// settleDNS returns the DNS that init applies, and what to report of it. What an operator has set stays: if
// anybody but init owns a field of it, init applies again what it has applied before, and nothing more.
func settleDNS(ctx context.Context, kcp *applier, found foundDNS) (*sandbarv1alpha1.EgressDNS, string, error) {
	if given := kcp.opts.Provider.Isolation.Egress.DNS; given != nil {
		return given, fmt.Sprintf("%s is as given: %s", dnsField, describeDNS(given)), nil
	}
	live := &unstructured.Unstructured{}
	if !kcp.absent {
		live.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("InfrastructureProvider"))
		err := kcp.client.Get(ctx, client.ObjectKey{Name: sandbarv1alpha1.InfrastructureProviderName}, live)
		if err != nil && !notThere(err) {
			return nil, "", fmt.Errorf("reading %s of the InfrastructureProvider: %w", dnsField, err)
		}
	}
	return settle(live, found)
}

func settle(live *unstructured.Unstructured, found foundDNS) (*sandbarv1alpha1.EgressDNS, string, error) {
	on := "no DNS that init knows was found on the runtime cluster"
	if found.dns != nil {
		on = fmt.Sprintf("found on the runtime cluster by %s: %s", found.said, describeDNS(found.dns))
	}
	own, other, err := ownersOfDNS(live)
	if err != nil {
		return nil, "", err
	}
	if other == "" {
		if found.dns == nil {
			return nil, fmt.Sprintf("%s has its default, %s: %s. If it is elsewhere, set that field (docs/operating.md#dns)", dnsField, describeDNS(nil), on), nil
		}
		return found.dns, fmt.Sprintf("%s is set to what was %s", dnsField, on), nil
	}
	set, _, _ := unstructured.NestedMap(live.Object, dnsPath...)
	whole, kept := &sandbarv1alpha1.EgressDNS{}, map[string]any{}
	for field, value := range set {
		if own[field] {
			kept[field] = value
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(set, whole); err != nil {
		return nil, "", fmt.Errorf("reading %s of the InfrastructureProvider: %w", dnsField, err)
	}
	report := fmt.Sprintf("%s stays as %s has set it: %s; %s", dnsField, other, describeDNS(whole), on)
	if len(kept) == 0 {
		return nil, report, nil
	}
	again := &sandbarv1alpha1.EgressDNS{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(kept, again); err != nil {
		return nil, "", fmt.Errorf("reading %s of the InfrastructureProvider: %w", dnsField, err)
	}
	return again, report, nil
}

// ownersOfDNS says which fields of the DNS init owns, and who else owns one; empty if nobody does.
func ownersOfDNS(live *unstructured.Unstructured) (own map[string]bool, other string, err error) {
	own = map[string]bool{}
	for _, entry := range live.GetManagedFields() {
		fields, err := fieldsOfDNS(entry)
		if err != nil {
			return nil, "", err
		}
		mine := entry.Manager == string(fieldOwner) && entry.Operation == metav1.ManagedFieldsOperationApply
		for field := range fields {
			if mine {
				own[field] = true
			} else {
				other = entry.Manager
			}
		}
	}
	return own, other, nil
}

// fieldsOfDNS are the names of the fields of the DNS that an entry of the managed fields has.
func fieldsOfDNS(entry metav1.ManagedFieldsEntry) (map[string]bool, error) {
	if entry.Subresource != "" || entry.FieldsV1 == nil {
		return nil, nil
	}
	at := map[string]any{}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &at); err != nil {
		return nil, fmt.Errorf("reading the managed fields of the InfrastructureProvider: %w", err)
	}
	for _, name := range dnsPath {
		at, _ = at["f:"+name].(map[string]any)
	}
	fields := map[string]bool{}
	for key := range at {
		if len(key) > 2 && key[:2] == "f:" {
			fields[key[2:]] = true
		}
	}
	return fields, nil
}
