// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/clone"
)

func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func workloadOf(t *testing.T, kind, name, podSpec string) *unstructured.Unstructured {
	t.Helper()
	version := versionOf(sandbarv1alpha1.BaselineWorkloadKind(kind)).String()
	return objectOf(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: prod-shop, labels: {tier: %s}}, spec: {replicas: 2, template: {spec: %s}}}",
		version, kind, name, name, podSpec))
}

func baselineOf() *sandbarv1alpha1.Baseline {
	return &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: sandbarv1alpha1.BaselineSpec{
		Namespaces: []sandbarv1alpha1.BaselineNamespace{{Name: "prod-shop", As: "storefront"}, {Name: "prod-api", As: "api"}},
	}}
}

const plainPod = `{containers: [{name: app, image: "ghcr.io/acme/shop:1"}]}`

// forbid refuses to read some objects.
func forbid(names ...string) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		for _, name := range names {
			if key.Name == name {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, name, errors.New("no"))
			}
		}
		return c.Get(ctx, key, obj, opts...)
	}}
}

func TestAReferenceLeadsToOneWorkloadOfTheBaseline(t *testing.T) {
	b := baselineOf()
	b.Spec.Workloads.Kinds = []sandbarv1alpha1.BaselineWorkloadKind{"Deployment", "Rollout"}
	for name, c := range map[string]struct {
		ref       sandbarv1alpha1.WorkloadReference
		namespace string
		want      string
		reason    clone.Reason
	}{
		"in the namespace of the object":              {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, "storefront", "apps/Deployment/prod-shop/web", ""},
		"in a namespace that it names":                {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Namespace: "api"}, "storefront", "apps/Deployment/prod-api/web", ""},
		"a Rollout":                                   {sandbarv1alpha1.WorkloadReference{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "web"}, "api", "argoproj.io/Rollout/prod-api/web", ""},
		"a kind that the Baseline does not have":      {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db"}, "api", "", clone.NotAllowed},
		"a kind of another version":                   {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1beta1", Kind: "Deployment", Name: "web"}, "api", "", clone.SourceKindUnsupported},
		"a kind of something else":                    {sandbarv1alpha1.WorkloadReference{APIVersion: "v1", Kind: "Secret", Name: "web"}, "api", "", clone.SourceKindUnsupported},
		"a namespace by the runtime cluster's name":   {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", Namespace: "prod-api"}, "api", "", clone.NotAllowed},
		"a namespace of the system":                   {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "coredns", Namespace: "kube-system"}, "api", "", clone.NotAllowed},
		"in a namespace that the Baseline has not":    {sandbarv1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, "default", "", clone.NotAllowed},
		"an apiVersion that cannot be read as one":    {sandbarv1alpha1.WorkloadReference{APIVersion: "a/b/c", Kind: "Deployment", Name: "web"}, "api", "", clone.SourceKindUnsupported},
		"a kind that is not known, and no apiVersion": {sandbarv1alpha1.WorkloadReference{Kind: "Job", Name: "web"}, "api", "", clone.SourceKindUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			source, err := SourceOf(b, &c.ref, c.namespace)
			if c.want != "" {
				if got := strings.Join([]string{source.Group, source.Kind, source.Namespace, source.Name}, "/"); err != nil || got != c.want {
					t.Errorf("%s, %v", got, err)
				}
				return
			}
			wantRefused(t, err, c.reason, "sourceRef")
		})
	}
}

// wantRefused checks the reason of a refusal, and that it names a field, or what else it has to say.
func wantRefused(t *testing.T, err error, reason clone.Reason, says string) {
	t.Helper()
	var refused *clone.RefusedError
	if !errors.As(err, &refused) || refused.Reason != reason || !strings.Contains(refused.Message, says) {
		t.Errorf("%v, want %s with %q", err, reason, says)
	}
}

func TestAWorkloadIsFrozenIfTheBaselineHasIt(t *testing.T) {
	rollout := objectOf(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: roll, namespace: prod-shop},
		spec: {replicas: 5, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`)
	lost := objectOf(t, `{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: lost, namespace: prod-shop},
		spec: {replicas: 5, workloadRef: {apiVersion: apps/v1, kind: Deployment, name: nothing}}}`)
	cluster := fake.NewClientBuilder().WithObjects(workloadOf(t, "Deployment", "web", plainPod), workloadOf(t, "Deployment", "other", plainPod),
		workloadOf(t, "Deployment", "closed", plainPod), workloadOf(t, "Deployment", "empty", "{}"), rollout, lost).WithInterceptorFuncs(forbid("closed")).Build()
	for name, c := range map[string]struct {
		kind, name string
		spec       func(*sandbarv1alpha1.BaselineSpec)
		replicas   int32
		reason     clone.Reason
		says       string
	}{
		"a Deployment": {kind: "Deployment", name: "web", replicas: 2},
		"a Rollout, whose template a Deployment has":   {kind: "Rollout", name: "roll", replicas: 5},
		"a Rollout, whose Deployment is not there":     {kind: "Rollout", name: "lost", reason: SourceNotFound, says: "has no Rollout lost"},
		"one that is not there":                        {kind: "Deployment", name: "nothing", reason: SourceNotFound, says: "Baseline shop has no Deployment nothing"},
		"one of a kind that the cluster does not have": {kind: "StatefulSet", name: "web", reason: SourceNotFound, says: "has no StatefulSet web"},
		"one that the controllers may not read":        {kind: "Deployment", name: "closed", reason: SourceNotReadable, says: "ask the operator"},
		"one that cannot be copied":                    {kind: "Deployment", name: "empty", reason: clone.NotCloneable, says: "has no containers"},
		"one that the Baseline does not name, in the words for one that is not there": {
			kind: "Deployment", name: "other", reason: SourceNotFound, says: "Baseline shop has no Deployment other",
			spec: func(s *sandbarv1alpha1.BaselineSpec) { s.Workloads.Names = []string{"web"} },
		},
		"one whose labels the Baseline does not choose": {
			kind: "Deployment", name: "other", reason: SourceNotFound, says: "has no Deployment other",
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Workloads.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
			},
		},
		"of a Baseline whose selector is wrong": {
			kind: "Deployment", name: "web", reason: clone.NotAllowed, says: "selector",
			spec: func(s *sandbarv1alpha1.BaselineSpec) {
				s.Workloads.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := baselineOf()
			if c.spec != nil {
				c.spec(&b.Spec)
			}
			source := clone.Source{Group: versionOf(sandbarv1alpha1.BaselineWorkloadKind(c.kind)).Group, Kind: c.kind, Namespace: "prod-shop", Name: c.name}
			snapshot, labels, err := Reader{cluster}.Freeze(t.Context(), b, source)
			if c.reason != "" {
				wantRefused(t, err, c.reason, c.says)
				return
			}
			if err != nil || labels == nil || snapshot.Source != source || snapshot.Replicas != c.replicas || snapshot.Template.Spec.Containers[0].Image != "ghcr.io/acme/shop:1" {
				t.Errorf("%+v, %v", snapshot, err)
			}
		})
	}
}

func TestTheVolumesOfAWorkloadAreFrozenByTheirSizes(t *testing.T) {
	const pod = `{containers: [{name: app, image: a}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: gone, persistentVolumeClaim: {claimName: gone}}]}`
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "data"}}
	claim.Spec.VolumeName = "pv-of-production"
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	cluster := fake.NewClientBuilder().WithObjects(workloadOf(t, "Deployment", "web", pod), claim).Build()
	b, source := baselineOf(), clone.Source{Group: "apps", Kind: "Deployment", Namespace: "prod-shop", Name: "web"}
	snapshot, _, err := Reader{cluster}.Freeze(t.Context(), b, source)
	if err != nil || len(snapshot.Claims) != 1 {
		t.Fatalf("%+v, %v", snapshot, err)
	}
	if kept := snapshot.Claims[0]; kept.Name != "data" || kept.Spec.VolumeName != "" || kept.Spec.Resources.Requests.Storage().String() != "5Gi" {
		t.Errorf("%+v", kept)
	}
	b.Spec.References.Volumes = sandbarv1alpha1.BaselineVolumesRefuse
	if snapshot, _, err := (Reader{cluster}).Freeze(t.Context(), b, source); err != nil || len(snapshot.Claims) != 0 {
		t.Errorf("claims are read though the Baseline shares no volumes: %+v, %v", snapshot, err)
	}
}

func TestASecretIsCopiedOnceAndWithNothingButItsData(t *testing.T) {
	original := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "db", Labels: map[string]string{"sandbar.dev/instance-uid": "forged"}, Annotations: map[string]string{"note": "internal"}},
		Data:       map[string][]byte{"password": []byte("x")}, Type: corev1.SecretTypeBasicAuth,
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: "settings"}, Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"c": {0}}}
	cluster := fake.NewClientBuilder().WithObjects(original, settings).Build()
	c, source := Copier{Reader{cluster}, cluster, "test"}, clone.Source{Group: "apps", Kind: "Deployment", Namespace: "prod-shop", Name: "web"}
	into := metav1.ObjectMeta{Namespace: "sb-web", Name: "ignored", Labels: map[string]string{"sandbar.dev/instance-uid": "own"}}
	for _, ref := range []clone.Reference{{Kind: clone.KindSecret, Name: "db"}, {Kind: clone.KindConfigMap, Name: "settings"}} {
		if err := c.Copy(t.Context(), baselineOf(), source, ref, into); err != nil {
			t.Fatal(err)
		}
	}
	copied, copiedSettings := &corev1.Secret{}, &corev1.ConfigMap{}
	if err := errors.Join(cluster.Get(t.Context(), client.ObjectKey{Namespace: "sb-web", Name: "db"}, copied),
		cluster.Get(t.Context(), client.ObjectKey{Namespace: "sb-web", Name: "settings"}, copiedSettings)); err != nil {
		t.Fatal(err)
	}
	if copied.Labels["sandbar.dev/instance-uid"] != "own" || len(copied.Annotations) != 0 || copied.Type != original.Type || copied.Immutable == nil || !*copied.Immutable || string(copied.Data["password"]) != "x" {
		t.Errorf("%+v", copied)
	}
	if copiedSettings.Data["a"] != "b" || len(copiedSettings.BinaryData) != 1 || copiedSettings.Immutable == nil {
		t.Errorf("%+v", copiedSettings)
	}
	original.Data["password"] = []byte("y")
	if err := cluster.Update(t.Context(), original); err != nil {
		t.Fatal(err)
	}
	if err := c.Copy(t.Context(), baselineOf(), source, clone.Reference{Kind: clone.KindSecret, Name: "db"}, into); err != nil {
		t.Errorf("a copy that is there: %v", err)
	}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: "sb-web", Name: "db"}, copied); err != nil || string(copied.Data["password"]) != "x" {
		t.Errorf("the copy has changed: %+v, %v", copied, err)
	}
}

func TestWhatCannotBeSharedIsRefused(t *testing.T) {
	secret := func(name string, of corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod-shop", Name: name}, Type: of}
	}
	cluster := fake.NewClientBuilder().WithObjects(secret("token", corev1.SecretTypeServiceAccountToken), secret("join", corev1.SecretTypeBootstrapToken),
		secret("closed", corev1.SecretTypeOpaque)).WithInterceptorFuncs(forbid("closed")).Build()
	c, source := Copier{Reader{cluster}, cluster, "test"}, clone.Source{Group: "apps", Kind: "Deployment", Namespace: "prod-shop", Name: "web"}
	for name, want := range map[string]struct {
		reason clone.Reason
		says   string
	}{
		"token":   {clone.SecretNotShared, "kubernetes.io/service-account-token"},
		"join":    {clone.SecretNotShared, "bootstrap.kubernetes.io/token"},
		"closed":  {SourceNotReadable, "sandbar-provider baseline grant shop"},
		"nothing": {clone.RenderFailed, "Deployment web refers to Secret nothing, which is not there"},
	} {
		ref := clone.Reference{Kind: clone.KindSecret, Name: name, Path: "spec.volumes[0].secret"}
		err := c.Copy(t.Context(), baselineOf(), source, ref, metav1.ObjectMeta{Namespace: "sb-web"})
		wantRefused(t, err, want.reason, want.says)
		wantRefused(t, err, want.reason, ref.Path)
	}
	list := &corev1.SecretList{}
	if err := cluster.List(t.Context(), list, client.InNamespace("sb-web")); err != nil || len(list.Items) != 0 {
		t.Errorf("copies were made: %v, %v", list.Items, err)
	}
}
