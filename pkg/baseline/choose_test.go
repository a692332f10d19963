// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// baselineOf is a Baseline for root:acme with namespaces written name or name=alias.
func baselineOf(name string, namespaces ...string) sandbarv1alpha1.Baseline {
	b := sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Spec.Workspaces = []sandbarv1alpha1.BaselineWorkspace{{Path: "root:acme"}}
	for _, n := range namespaces {
		own, alias, _ := strings.Cut(n, "=")
		b.Spec.Namespaces = append(b.Spec.Namespaces, sandbarv1alpha1.BaselineNamespace{Name: own, As: alias})
	}
	return b
}

func TestABaselineIsChosenByItsNameOrByTheNamespace(t *testing.T) {
	others := baselineOf("others", "billing")
	others.Spec.Workspaces[0].Path = "root:else"
	ending := baselineOf("ending", "ending")
	ending.DeletionTimestamp = &metav1.Time{}
	*ending.DeletionTimestamp = metav1.Now()
	all := []sandbarv1alpha1.Baseline{
		baselineOf("shop", "prod-shop=storefront", "prod-api=api"), baselineOf("mail", "mail"), baselineOf("mail-eu", "mail-eu=mail"),
		others, ending, baselineOf("system", "kube-system=sys"),
	}
	for name, c := range map[string]struct {
		name, namespace, path string
		want, says            string
	}{
		"by its name, from any namespace":            {name: "shop", namespace: "default", path: "root:acme", want: "shop"},
		"by the alias of the object's own namespace": {namespace: "api", path: "root:acme", want: "shop"},
		"not by the name of the runtime namespace":   {namespace: "prod-shop", path: "root:acme", says: "no Baseline for this workspace has a namespace prod-shop"},
		"not by an alias that two have":              {namespace: "mail", path: "root:acme", says: "mail, mail-eu"},
		"by its name though two have the alias":      {name: "mail", namespace: "mail", path: "root:acme", want: "mail"},
		"not one for another workspace":              {name: "others", namespace: "billing", path: "root:acme", says: "there is no Baseline others for this workspace; it has mail, mail-eu, shop, system"},
		"not one that does not exist, in the same words": {
			name: "nothing", namespace: "billing", path: "root:acme", says: "there is no Baseline nothing for this workspace; it has mail, mail-eu, shop, system",
		},
		"not by the alias of one for another workspace": {namespace: "billing", path: "root:acme", says: "no Baseline for this workspace has a namespace billing"},
		"not one that is being deleted":                 {name: "ending", namespace: "ending", path: "root:acme", says: "there is no Baseline ending"},
		"not by an alias of a reserved namespace":       {namespace: "sys", path: "root:acme", says: "no Baseline for this workspace has a namespace sys"},
		"none where the path is not known":              {name: "shop", namespace: "api", says: "the workspace has none"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Choose(all, c.name, c.namespace, c.path)
			if c.want != "" {
				if err != nil || b.Name != c.want {
					t.Errorf("%v, %v", b, err)
				}
				return
			}
			var missing *NotFoundError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %v, want %q", b, err, c.says)
			}
		})
	}
}

func TestAnAliasLeadsToOneNamespaceThatIsNotReserved(t *testing.T) {
	b := baselineOf("shop", "prod-shop=storefront", "api", "kube-system=sys", "sb-x")
	for alias, want := range map[string]string{"storefront": "prod-shop", "api": "api", "prod-shop": "", "sys": "", "sb-x": "", "": ""} {
		if got, ok := Namespace(&b.Spec, alias); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t", alias, got, ok)
		}
	}
	if got := strings.Join(Aliases(&b.Spec), " "); got != "storefront api" {
		t.Error(got)
	}
}

func TestWhatProxiesAreMadeOfIsNotOffered(t *testing.T) {
	workloads, services, err := Filters(&sandbarv1alpha1.BaselineSpec{})
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{"sandbar.dev/intercepts": "web"}
	if workloads.Admits("sandbar-proxy-web", of) || services.Admits("web-sandbar-baseline", of) || !services.Admits("web", nil) {
		t.Error("a Baseline offers what Sandbar has made")
	}
}

func TestAFilterThatIsNotMadeLetsNothingThrough(t *testing.T) {
	if (Filter{}).Admits("web", nil) {
		t.Error("the zero filter admits an object")
	}
}
