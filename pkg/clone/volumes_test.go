// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package clone

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

// stateful is the input for a StatefulSet with volumes and claim templates, of which no claim was added.
func stateful(t *testing.T, volumes, templates string) Input {
	t.Helper()
	u := &unstructured.Unstructured{}
	text := `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {template: {spec: {containers: [{name: a, image: b, ports: [{containerPort: 1}]}], volumes: [` +
		volumes + `]}}, volumeClaimTemplates: [` + templates + `]}}`
	if err := yaml.UnmarshalStrict([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	in := input(t, &row{Source: "plain", Component: sandbarv1alpha1.SandboxGroupComponent{Name: "db"}})
	var err error
	if in.Snapshot, err = Freeze(u, nil); err != nil {
		t.Fatal(err)
	}
	return in
}

// mounted are the volumes of a copy, each with its claim.
func mounted(r *Rendered) (volumes []string) {
	for _, v := range r.Deployment.Spec.Template.Spec.Volumes {
		what := "other"
		if v.PersistentVolumeClaim != nil {
			what = v.PersistentVolumeClaim.ClaimName
		}
		volumes = append(volumes, v.Name+"="+what)
	}
	return volumes
}

func size(name, size string, mode corev1.PersistentVolumeMode) string {
	return fmt.Sprintf(`{metadata: {name: %s}, spec: {accessModes: [ReadWriteOnce], volumeMode: %s, resources: {requests: {storage: %s}}}}`, name, mode, size)
}

func TestEachClaimOfAComponentHasItsName(t *testing.T) {
	in := stateful(t, `{name: one, persistentVolumeClaim: {claimName: data}}, {name: two, persistentVolumeClaim: {claimName: data}},
		{name: data, emptyDir: {}}, {name: gone, persistentVolumeClaim: {claimName: gone}}, {name: other, configMap: {name: a}}`,
		size("data", "1Gi", "Filesystem")+","+size("gone", "2Gi", "Filesystem"))
	if diff := cmp.Diff([]string{"data", "gone"}, in.Snapshot.ClaimNames()); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"gone", "data", "gone"} {
		in.Snapshot.AddClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}})
	}
	r, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	// Two volumes of one claim stay that, and a claim template takes the place of the volume of its name.
	want := []string{"one=storefront-preview-db.one", "two=storefront-preview-db.one", "data=storefront-preview-db.data", "gone=storefront-preview-db.gone", "other=other"}
	if diff := cmp.Diff(want, mounted(r)); diff != "" {
		t.Error(diff)
	}
	var sizes []string
	for _, claim := range r.Claims {
		storage := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		sizes = append(sizes, claim.Name+" "+storage.String())
	}
	if diff := cmp.Diff([]string{"storefront-preview-db.data 1Gi", "storefront-preview-db.gone 2Gi", "storefront-preview-db.one 0"}, sizes); diff != "" {
		t.Error(diff)
	}
}

func TestAClaimThatAPatchRemovesIsNotMade(t *testing.T) {
	in := stateful(t, "", size("data", "1Gi", "Filesystem"))
	in.Component.PodTemplatePatch = []sandbarv1alpha1.PatchOperation{{Op: "remove", Path: "/spec/volumes/0"}}
	r, err := Render(in)
	if err != nil || len(r.Claims) > 0 || r.Deployment.Spec.Strategy.Type != "" {
		t.Errorf("claims %v, strategy %q, %v", r.Claims, r.Deployment.Spec.Strategy.Type, err)
	}
}

func TestVolumesThatNothingCanStandFor(t *testing.T) {
	for name, row := range map[string]struct {
		volumes, templates string
		policy             sandbarv1alpha1.BaselineVolumes
		says               string
	}{
		"a claim that was not found":               {`{name: a, persistentVolumeClaim: {claimName: gone}}`, "", "", "was not found"},
		"a device as a directory":                  {"", size("disk", "1Gi", "Block"), sandbarv1alpha1.BaselineVolumesEmptyDir, "block device"},
		"a claim template, which is refused":       {"", size("disk", "1Gi", "Filesystem"), sandbarv1alpha1.BaselineVolumesRefuse, "references.volumes"},
		"a claim, which is refused":                {`{name: a, persistentVolumeClaim: {claimName: gone}}`, "", sandbarv1alpha1.BaselineVolumesRefuse, "references.volumes"},
		"a volume of its pod, which is refused":    {`{name: a, ephemeral: {volumeClaimTemplate: {spec: {}}}}`, "", sandbarv1alpha1.BaselineVolumesRefuse, "references.volumes"},
		"a driver's volume, also with a directory": {`{name: a, csi: {driver: a}}`, "", sandbarv1alpha1.BaselineVolumesEmptyDir, "emptyDir into its place"},
	} {
		t.Run(name, func(t *testing.T) {
			in := stateful(t, row.volumes, row.templates)
			in.Rules.References.Volumes = row.policy
			_, err := Render(in)
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Reason != VolumeNotCloneable || !strings.Contains(refused.Message, row.says) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestHowPodsAreReplaced(t *testing.T) {
	for mode, want := range map[corev1.PersistentVolumeAccessMode]string{
		corev1.ReadWriteOnce: "Recreate", corev1.ReadWriteOncePod: "Recreate", corev1.ReadOnlyMany: "Recreate", corev1.ReadWriteMany: "",
	} {
		claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}}}
		if got := strategyFor([]*corev1.PersistentVolumeClaim{claim}); string(got.Type) != want {
			t.Errorf("%s: %q, want %q", mode, got.Type, want)
		}
	}
}
