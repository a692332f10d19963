// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// onRuntime is what init applies to the runtime cluster for a provider of a name, by kind and name.
func onRuntime(t *testing.T, name, provider string) map[string]string {
	t.Helper()
	opts := testOptions()
	opts.RuntimeName, opts.provider = name, provider
	if err := opts.complete(); err != nil {
		t.Fatal(err)
	}
	objects, err := runtimeObjects(opts, "restricted")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, object := range objects {
		found[object.GetKind()+" "+qualified(object)] = fmt.Sprint(object.Object)
	}
	return found
}

// The init of one provider must take nothing from another one on the same cluster: not its names, and not the policies
// that bound its identities. What they share is about kro, of which there is one, and says the same.
func TestTwoProvidersShareOnlyWhatIsAboutKro(t *testing.T) {
	first, second := onRuntime(t, "", "first"), onRuntime(t, "blue", "second")
	var shared []string
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if _, also := second[name]; !also {
			continue
		}
		shared = append(shared, name)
		if diff := cmp.Diff(first[name], second[name]); diff != "" {
			t.Errorf("%s says another thing after the init of another provider:\n%s", name, diff)
		}
	}
	want := []string{
		"ValidatingAdmissionPolicy sandbar-deletion", "ValidatingAdmissionPolicy sandbar-kro",
		"ValidatingAdmissionPolicyBinding sandbar-deletion", "ValidatingAdmissionPolicyBinding sandbar-kro",
	}
	if diff := cmp.Diff(want, shared); diff != "" {
		t.Errorf("what both apply (-want +got):\n%s", diff)
	}
	if len(first) != len(second) {
		t.Errorf("the first provider gets %d objects, the second %d", len(first), len(second))
	}
	for name, text := range second {
		if slices.Contains(shared, name) {
			continue
		}
		for _, foreign := range []string{placement.SystemNamespace, placement.NetworkCheckNamespace, "first", `"sandbar.dev"`, "[sandbar.dev]"} {
			if strings.Contains(text, foreign) {
				t.Errorf("%s of the second provider names %q, which is the first one's:\n%s", name, foreign, text)
			}
		}
	}
}

// TestANameOnTheRuntimeClusterIsOfOneProvider: without this, a second provider's init would give the first one's
// identities to the second, and both would write one platform.
func TestANameOnTheRuntimeClusterIsOfOneProvider(t *testing.T) {
	system := func(annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sandbar-blue-system", Annotations: annotations}}
	}
	for name, tc := range map[string]struct {
		there client.Object
		taken bool
	}{
		"nobody has it":              {there: system(nil)},
		"there is no such namespace": {there: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "sandbar-system", Annotations: map[string]string{placement.AnnotationProvider: "another"}}}},
		"this provider has it":       {there: system(map[string]string{placement.AnnotationProvider: "this"})},
		"another provider has it":    {there: system(map[string]string{placement.AnnotationProvider: "another"}), taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			opts := testOptions()
			opts.provider = "this"
			cluster := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.there).Build()
			a := &applier{where: "runtime", system: "sandbar-blue-system", client: cluster, opts: opts}
			err := a.checkOwner(context.Background())
			if errors.Is(err, ErrAnotherProvider) != tc.taken || !tc.taken && err != nil {
				t.Fatalf("error %v, want it refused: %v", err, tc.taken)
			}
			for _, says := range []string{"another", "--runtime-name", "kubectl annotate namespace sandbar-blue-system sandbar.dev/provider-"} {
				if tc.taken && !strings.Contains(err.Error(), says) {
					t.Errorf("the error lacks %q: %v", says, err)
				}
			}
		})
	}
}
