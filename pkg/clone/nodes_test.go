// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func TestWhatAPodSearchesFirstStaysFirst(t *testing.T) {
	in := input(t, &row{Source: "storefront", Searches: []string{"shop", "billing"}, Component: sandbarv1alpha1.SandboxGroupComponent{
		Name: "web", PodTemplatePatch: []sandbarv1alpha1.PatchOperation{
			{Op: "add", Path: "/spec/dnsConfig", Value: &runtime.RawExtension{Raw: []byte(`{"searches": ["mine", "billing.svc.cluster.local"]}`)}},
		},
	}})
	r, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Deployment.Spec.Template.Spec.DNSConfig.Searches; !slices.Equal(got, []string{"mine", "billing.svc.cluster.local", "shop.svc.cluster.local"}) {
		t.Errorf("it searches %v", got)
	}
}

// A Baseline may have 32 namespaces with names of 63 characters.
func TestAPodSearchesNoMoreThanKubernetesTakes(t *testing.T) {
	for name, row := range map[string]struct{ count, letters, want int }{
		"all of them":                  {32, 10, 32},
		"too many":                     {33, 10, 32},
		"names that are too long":      {32, 63, 24},
		"a long name among short ones": {31, 46, 31},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rendering{}
			for i := range row.count {
				r.Searches = append(r.Searches, fmt.Sprintf("%0*d", row.letters, i))
			}
			r.search()
			got := r.template.Spec.DNSConfig.Searches
			if len(got) != row.want || len(strings.Join(got, " ")) > maxSearchesLetters {
				t.Errorf("%d of %d letters", len(got), len(strings.Join(got, " ")))
			}
			if told := len(r.notes) == 1 && r.notes[0].Reason == SearchesDropped; told != (row.want < row.count) {
				t.Errorf("the notes are %v", r.notes)
			}
		})
	}
}

func TestWhichDomainsAreThoseOfKubernetes(t *testing.T) {
	for key, want := range map[string]bool{
		corev1.LabelHostname: true, "node-role.kubernetes.io/control-plane": true, "a.k8s.io/b": true, "kueue.x-k8s.io/queue-name": true,
		"kubernetes.io": false, "notkubernetes.io/a": false, "example.com/kubernetes.io": false, "pool": false,
	} {
		if got := kubernetesDomain(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}
