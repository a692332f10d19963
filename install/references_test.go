// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// readBy are the objects that a Role lets somebody get, beside workloads and Services.
func readBy(t *testing.T, a *applier, namespace string) string {
	t.Helper()
	role := &rbacv1.Role{}
	if err := a.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "sandbar-baseline"}, role); err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, rule := range role.Rules {
		if slices.Equal(rule.Verbs, []string{"get"}) {
			read = append(read, fmt.Sprint(strings.Join(rule.Resources, " "), rule.ResourceNames))
		}
	}
	return strings.Join(read, " ")
}

func sharing(name, namespace string, references sandbarv1alpha1.BaselineReferences) client.Object {
	b := baselineNamed(name, namespace).(*sandbarv1alpha1.Baseline)
	b.Spec.References = references
	return b
}

func TestTheControllersReadWhatABaselineSharesAndNothingElse(t *testing.T) {
	secrets := func(policy sandbarv1alpha1.BaselineSharing, names ...string) sandbarv1alpha1.BaselineReferences {
		return sandbarv1alpha1.BaselineReferences{Secrets: sandbarv1alpha1.BaselineSharedSecrets{Policy: policy, Names: names}}
	}
	nothing := secrets(sandbarv1alpha1.BaselineRefuse)
	nothing.ConfigMaps.Policy, nothing.Volumes = sandbarv1alpha1.BaselineRefuse, sandbarv1alpha1.BaselineVolumesRefuse
	named := secrets(sandbarv1alpha1.BaselineCopy, "b", "a")
	named.ConfigMaps.Names = []string{"settings"}
	for name, c := range map[string]struct {
		references sandbarv1alpha1.BaselineReferences
		want, says string
	}{
		"by default":       {sandbarv1alpha1.BaselineReferences{}, "configmaps[] persistentvolumeclaims[]", "workloads and Services; all ConfigMaps"},
		"nothing":          {nothing, "", "workloads and Services"},
		"all Secrets":      {secrets(sandbarv1alpha1.BaselineCopy), "configmaps[] persistentvolumeclaims[] secrets[]", "workloads and Services; all ConfigMaps; all Secrets"},
		"objects by names": {named, "configmaps[settings] persistentvolumeclaims[] secrets[a b]", "workloads and Services; the ConfigMaps settings; the Secrets a, b"},
		"names of what is refused": {
			secrets(sandbarv1alpha1.BaselineRefuse, "a"), "configmaps[] persistentvolumeclaims[]", "workloads and Services; all ConfigMaps",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := granting(t, sharing("shop", "storefront", c.references), namespaceNamed("storefront"))
			var said []string
			a.opts.Progress = func(line string) { said = append(said, line) }
			wanted, err := a.namespacesOf(t.Context(), nil)
			if err == nil {
				err = a.grant(t.Context(), wanted, false)
			}
			if got := readBy(t, a, "storefront"); err != nil || got != c.want {
				t.Errorf("%s, %v", got, err)
			}
			if want := "the controllers may read in namespace storefront: " + c.says; !slices.Equal(said, []string{want}) {
				t.Errorf("it says %q, want %q", said, want)
			}
		})
	}
}

// A Baseline of somebody else in the same namespace gets nothing when an administrator grants one that they have looked at, and
// loses nothing.
func TestAGrantIsForTheBaselinesThatAreNamed(t *testing.T) {
	all := sandbarv1alpha1.BaselineReferences{Secrets: sandbarv1alpha1.BaselineSharedSecrets{Policy: sandbarv1alpha1.BaselineCopy}}
	one := sandbarv1alpha1.BaselineReferences{Secrets: sandbarv1alpha1.BaselineSharedSecrets{Policy: sandbarv1alpha1.BaselineCopy, Names: []string{"db"}}}
	two := sandbarv1alpha1.BaselineReferences{Secrets: sandbarv1alpha1.BaselineSharedSecrets{Policy: sandbarv1alpha1.BaselineCopy, Names: []string{"mail"}}}
	a := granting(t, sharing("evil", "storefront", all), sharing("shop", "storefront", one), sharing("mail", "storefront", two), namespaceNamed("storefront"))
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"shop"}, "secrets[db]"},
		{[]string{"mail"}, "secrets[db mail]"},
		{[]string{"mail"}, "secrets[db mail]"},
		{nil, "secrets[]"},
	} {
		wanted, err := a.namespacesOf(t.Context(), c.names)
		if err == nil {
			err = a.grant(t.Context(), wanted, len(c.names) > 0)
		}
		if got := readBy(t, a, "storefront"); err != nil || !strings.HasSuffix(got, c.want) {
			t.Errorf("grant %v: %s, %v", c.names, got, err)
		}
	}
}
