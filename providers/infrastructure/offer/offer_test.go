// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	kcpapisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// newOffers are those of a provider workspace; meanwhile runs before each write.
func newOffers(t *testing.T, meanwhile func(client.WithWatch), objects ...client.Object) *Offers {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kcpapisv1alpha1.AddToScheme, kcpapisv1alpha2.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if meanwhile != nil {
				do := meanwhile
				meanwhile = nil
				do(c)
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	return &Offers{KCP: c, Policy: c, ExportName: "sandbar.dev"}
}

func exportOf(schemas map[string]string) *kcpapisv1alpha2.APIExport {
	export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "sandbar.dev"}}
	for _, resource := range []string{"a", "b", "c"} {
		if name, ok := schemas[resource]; ok {
			export.Spec.Resources = append(export.Spec.Resources, kcpapisv1alpha2.ResourceSchema{Group: "sandbar.dev", Name: resource, Schema: name})
		}
	}
	return export
}

func schemasOf(export *kcpapisv1alpha2.APIExport) map[string]string {
	schemas := map[string]string{}
	for _, entry := range export.Spec.Resources {
		schemas[entry.Name] = entry.Schema
	}
	return schemas
}

func TestAnEntryIsSetAndOthersStay(t *testing.T) {
	for name, tc := range map[string]struct {
		before     map[string]string
		schemaName string
		want       map[string]string
	}{
		"a new one":      {map[string]string{"a": "va"}, "vb", map[string]string{"a": "va", "b": "vb"}},
		"another schema": {map[string]string{"a": "va", "b": "v", "c": "vc"}, "vb", map[string]string{"a": "va", "b": "vb", "c": "vc"}},
		"withdrawn":      {map[string]string{"a": "va", "b": "vb", "c": "vc"}, "", map[string]string{"a": "va", "c": "vc"}},
		"as it was":      {map[string]string{"b": "vb"}, "vb", map[string]string{"b": "vb"}},
		"not there":      {map[string]string{"a": "va"}, "", map[string]string{"a": "va"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffers(t, nil, exportOf(tc.before))
			if _, err := o.SetEntry(t.Context(), schema.GroupResource{Group: "sandbar.dev", Resource: "b"}, tc.schemaName); err != nil {
				t.Fatal(err)
			}
			export := &kcpapisv1alpha2.APIExport{}
			if err := o.KCP.Get(t.Context(), client.ObjectKey{Name: "sandbar.dev"}, export); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, schemasOf(export)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoWriteUndoesAnothers: what another controller has written since the read is a conflict, for a patch
// of a list replaces the whole list.
func TestNoWriteUndoesAnothers(t *testing.T) {
	o := newOffers(t, func(c client.WithWatch) {
		export := &kcpapisv1alpha2.APIExport{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "sandbar.dev"}, export); err != nil {
			t.Fatal(err)
		}
		export.Spec.Resources = exportOf(map[string]string{"a": "new"}).Spec.Resources
		if err := c.Update(t.Context(), export); err != nil {
			t.Fatal(err)
		}
	}, exportOf(map[string]string{"a": "va"}))
	if _, err := o.SetEntry(t.Context(), schema.GroupResource{Group: "sandbar.dev", Resource: "b"}, "vb"); !apierrors.IsConflict(err) {
		t.Errorf("an entry that another wrote meanwhile: %v", err)
	}
	o = newOffers(t, func(c client.WithWatch) {
		role := &rbacv1.ClusterRole{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: PolicyRole}, role); err != nil {
			t.Fatal(err)
		}
		role.Rules = KindRules("a", AllVerbs)
		if err := c.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: PolicyRole}})
	if _, err := o.SetRules(t.Context(), "b", KindRules("b", AllVerbs)); !apierrors.IsConflict(err) {
		t.Errorf("rules that another wrote meanwhile: %v", err)
	}
	if changed, err := o.SetRules(t.Context(), "b", KindRules("b", AllVerbs)); err != nil || !changed {
		t.Errorf("the second try changes the rules: %t, %v", changed, err)
	}
}

func TestASchemaIsNamedForItsContent(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.sandbar.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "sandbar.dev", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	name := func(labels map[string]string) string {
		schema, err := Schema(crd, labels)
		if err != nil {
			t.Fatal(err)
		}
		return schema.Name
	}
	first := name(nil)
	if again := name(map[string]string{"a": "b"}); again != first {
		t.Errorf("the same content has the names %s and %s", first, again)
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "another"
	if other := name(nil); other == first {
		t.Errorf("two contents have the name %s", other)
	}
	schema, err := Schema(crd, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := newOffers(t, nil)
	for range 2 {
		if err := o.Publish(t.Context(), schema.DeepCopy()); err != nil {
			t.Errorf("publishing a schema, or publishing it again: %v", err)
		}
	}
}
