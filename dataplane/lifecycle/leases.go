// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// leasePatch is what the data plane writes of a Lease.
type leasePatch struct {
	Metadata leaseVersion `json:"metadata,omitzero"`
	Spec     LeaseTimes   `json:"spec"`
}

// leaseVersion makes the API server refuse the patch if the Lease has changed since.
type leaseVersion struct {
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// LeaseTimes are the fields of a Lease's spec that the data plane writes; those that are nil stay as they are.
type LeaseTimes struct {
	HolderIdentity       *string           `json:"holderIdentity,omitempty"`
	LeaseDurationSeconds *int32            `json:"leaseDurationSeconds,omitempty"`
	AcquireTime          *metav1.MicroTime `json:"acquireTime,omitempty"`
	RenewTime            *metav1.MicroTime `json:"renewTime,omitempty"`
}

// PatchLease writes times into the Lease that was read, if it has not changed since; without a
// version in what was read, in any case.
func PatchLease(ctx context.Context, client kubernetes.Interface, read *coordinationv1.Lease, times LeaseTimes) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, LeaseTimeout)
	defer cancel()
	body, err := json.Marshal(leasePatch{leaseVersion{read.ResourceVersion}, times})
	if err != nil {
		return nil, fmt.Errorf("encoding the times of a Lease: %w", err)
	}
	written, err := client.CoordinationV1().Leases(read.Namespace).Patch(ctx, read.Name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		return nil, fmt.Errorf("writing Lease %s: %w", read.Name, err)
	}
	return written, nil
}
