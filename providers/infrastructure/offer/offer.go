// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// Offers writes what the provider offers.
type Offers struct {
	// KCP reads and writes the provider workspace; its scheme has kcp's apis group and RBAC's.
	KCP client.Client
	// Policy reads the ClusterRole PolicyRole; it need not be able to read another.
	Policy client.Reader
	// ExportName is the name of the APIExport.
	ExportName string

	policy cache.Cache
}

// Register adds to the manager of the provider workspace a cache of the one ClusterRole PolicyRole: the
// provider may read this role and needs no right to list the others. exportName defaults to the name of
// the API group.
func Register(mgr ctrl.Manager, exportName string) (*Offers, error) {
	policy, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(),
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&rbacv1.ClusterRole{}: {Field: fields.OneTermEqualSelector("metadata.name", PolicyRole)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of the policy role: %w", err)
	}
	if err := mgr.Add(policy); err != nil {
		return nil, fmt.Errorf("adding the cache of the policy role: %w", err)
	}
	return &Offers{
		KCP: mgr.GetClient(), Policy: policy, ExportName: cmp.Or(exportName, sandbarv1alpha1.GroupName), policy: policy,
	}, nil
}

// PolicyChanged is the source of changes of the ClusterRole PolicyRole.
func (o *Offers) PolicyChanged(h handler.EventHandler) source.Source {
	return source.Kind[client.Object](o.policy, &rbacv1.ClusterRole{}, h)
}

// SetEntry makes the export offer the resource with the schema; an empty schemaName withdraws it. Other
// entries stay as they are. A conflicting write of another is an error (apierrors.IsConflict), so that
// the caller tries again with what the other wrote; an export that does not exist is one, too
// (apierrors.IsNotFound).
func (o *Offers) SetEntry(ctx context.Context, resource schema.GroupResource, schemaName string) (*kcpapisv1alpha2.APIExport, error) {
	export := &kcpapisv1alpha2.APIExport{}
	if err := o.KCP.Get(ctx, types.NamespacedName{Name: o.ExportName}, export); err != nil {
		return nil, fmt.Errorf("reading APIExport %s: %w", o.ExportName, err)
	}
	entry := FindEntry(export, resource)
	updated := export.DeepCopy()
	switch {
	case schemaName == "" && entry == nil, entry != nil && entry.Schema == schemaName:
		return export, nil
	case schemaName == "":
		updated.Spec.Resources = slices.DeleteFunc(updated.Spec.Resources, func(e kcpapisv1alpha2.ResourceSchema) bool {
			return e.Name == resource.Resource && e.Group == resource.Group
		})
	case entry == nil:
		updated.Spec.Resources = append(updated.Spec.Resources, kcpapisv1alpha2.ResourceSchema{
			Name: resource.Resource, Group: resource.Group, Schema: schemaName,
			Storage: kcpapisv1alpha2.ResourceSchemaStorage{CRD: &kcpapisv1alpha2.ResourceSchemaStorageCRD{}},
		})
	default:
		FindEntry(updated, resource).Schema = schemaName
	}
	patch := client.MergeFromWithOptions(export, client.MergeFromWithOptimisticLock{})
	if err := o.KCP.Patch(ctx, updated, patch); err != nil {
		return nil, fmt.Errorf("offering %s in APIExport %s: %w", resource, o.ExportName, err)
	}
	return updated, nil
}

// Named lets through the events of objects of one name.
func Named(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == name })
}

// FindEntry returns the export's entry of a resource, or nil.
func FindEntry(export *kcpapisv1alpha2.APIExport, resource schema.GroupResource) *kcpapisv1alpha2.ResourceSchema {
	for i := range export.Spec.Resources {
		if entry := &export.Spec.Resources[i]; entry.Name == resource.Resource && entry.Group == resource.Group {
			return entry
		}
	}
	return nil
}

// NotServed says why an export cannot be bound; empty if it can.
func NotServed(export *kcpapisv1alpha2.APIExport) string {
	for _, c := range export.Status.Conditions {
		if c.Type == kcpapisv1alpha2.APIExportIdentityValid && c.Status == corev1.ConditionTrue {
			return ""
		}
		if c.Type == kcpapisv1alpha2.APIExportIdentityValid {
			return c.Message
		}
	}
	return "it has no identity"
}
