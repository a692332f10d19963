// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// tenantWrite is a request in a bound workspace that changes something.
type tenantWrite struct {
	user string
	// cluster is the logical cluster of a service account; empty for other users.
	cluster string
	// old and object are the annotations of the object; without old ones the object is created.
	old, object map[string]string
}

// tenantRefusal is refusal for a request in a bound workspace and a policy of the provider workspace.
func tenantRefusal(t *testing.T, name string, w tenantWrite) string {
	t.Helper()
	objects, err := kcpObjects(testOptions(), false)
	if err != nil {
		t.Fatal(err)
	}
	policy := policiesOf(t, objects)[name]
	if policy == nil {
		t.Fatalf("there is no policy %s", name)
	}
	object := func(annotations map[string]string) map[string]any {
		raw, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"name": "web", "annotations": annotations}})
		if err != nil {
			t.Fatal(err)
		}
		read := map[string]any{}
		if err := yaml.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		if len(annotations) == 0 {
			delete(read["metadata"].(map[string]any), "annotations")
		}
		return read
	}
	user := map[string]any{"username": w.user}
	if w.cluster != "" {
		user["extra"] = map[string]any{"authentication.kcp.io/cluster-name": []any{w.cluster}}
	}
	request := map[string]any{"userInfo": user, "operation": "CREATE"}
	input := map[string]any{"object": object(w.object), "oldObject": nil, "request": request}
	if w.old != nil {
		input["oldObject"], request["operation"] = object(w.old), "UPDATE"
	}
	return verdict(t, policy, input)
}

// TestTheCreatorOfAnObjectIsTheUserWhoCreatesIt evaluates the policy of the manifests. e2e
// TestNobodyWritesAnotherCreator tries it in kcp.
func TestTheCreatorOfAnObjectIsTheUserWhoCreatesIt(t *testing.T) {
	const controllers = "system:serviceaccount:sandbar-system:sandbar-provider"
	by := func(user string) map[string]string {
		return map[string]string{"sandbar.dev/created-by": user, "other": "x"}
	}
	plain := map[string]string{"other": "x"}
	for name, tc := range map[string]struct {
		write tenantWrite
		want  string
	}{
		"a user creates an object":                            {tenantWrite{user: "ann", object: by("ann")}, ""},
		"without saying so":                                   {tenantWrite{user: "ann", object: plain}, ""},
		"without any annotation":                              {tenantWrite{user: "ann"}, ""},
		"in the name of another":                              {tenantWrite{user: "ann", object: by("bob")}, "names another user than you; write ann, or leave it out"},
		"in an empty name":                                    {tenantWrite{user: "ann", object: by("")}, "write ann"},
		"in a name that is alike":                             {tenantWrite{user: "ann", object: by("Ann")}, "write ann"},
		"in the name of the controllers":                      {tenantWrite{user: "ann", object: by(controllers)}, "write ann"},
		"a service account creates one":                       {tenantWrite{user: "system:serviceaccount:default:bot", cluster: "tenant", object: by("system:serviceaccount:default:bot")}, ""},
		"a user changes something else":                       {tenantWrite{user: "bob", old: by("ann"), object: by("ann")}, ""},
		"also of an object without a creator":                 {tenantWrite{user: "bob", old: plain, object: map[string]string{"other": "y"}}, ""},
		"takes all annotations away that are not the creator": {tenantWrite{user: "bob", old: plain, object: map[string]string{}}, ""},
		"changes the creator":                                 {tenantWrite{user: "bob", old: by("ann"), object: by("bob")}, "does not change; write ann"},
		"as the creator, too":                                 {tenantWrite{user: "ann", old: by("ann"), object: by("bob")}, "does not change; write ann"},
		"removes the creator":                                 {tenantWrite{user: "ann", old: by("ann"), object: plain}, "does not change; write ann"},
		"with all annotations":                                {tenantWrite{user: "ann", old: by("ann")}, "does not change; write ann"},
		"empties it":                                          {tenantWrite{user: "ann", old: by("ann"), object: by("")}, "does not change; write ann"},
		"adds itself later":                                   {tenantWrite{user: "ann", old: plain, object: by("ann")}, "and not later; leave it out"},
		"adds itself to an object without annotations":        {tenantWrite{user: "ann", old: map[string]string{}, object: by("ann")}, "and not later; leave it out"},
		"the controllers create what another has asked for":   {tenantWrite{user: controllers, cluster: testProvider, object: by("ann")}, ""},
		"and change it no more than others":                   {tenantWrite{user: controllers, cluster: testProvider, old: by("ann"), object: by("bob")}, "does not change; write ann"},
		"and add none later":                                  {tenantWrite{user: controllers, cluster: testProvider, old: plain, object: by("ann")}, "and not later"},
		"a tenant's ServiceAccount of the same name":          {tenantWrite{user: controllers, cluster: "tenant", object: by("ann")}, "names another user than you"},
		"and one that kcp says nothing of":                    {tenantWrite{user: controllers, object: by("ann")}, "names another user than you"},
		"the data plane's own identity":                       {tenantWrite{user: controllers + "-serve", cluster: testProvider, object: by("ann")}, "names another user than you"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tenantRefusal(t, "sandbar-created-by", tc.write)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("refusal %q, want %q", got, tc.want)
			}
		})
	}
}
