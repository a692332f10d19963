// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/revision"
)

// served is a ResourceGraphDefinition of a Template that reads an expression of the platform.
func served(t *testing.T, template, expr string) *krov1alpha1.ResourceGraphDefinition {
	t.Helper()
	graph, err := revision.NewGraph(map[string]any{"schema": map[string]any{}, "resources": []any{
		map[string]any{"id": "platform", "externalRef": map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": placement.PlatformConfigMap, "namespace": placement.SystemNamespace},
		}},
		map[string]any{"id": "app", "template": map[string]any{"image": "${" + expr + "}"}},
	}}, &sandbarv1alpha1.DataPlane{})
	if err != nil {
		t.Fatal(err)
	}
	record, err := revision.Encode([]revision.Graph{graph})
	if err != nil {
		t.Fatal(err)
	}
	return &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: template, Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy, placement.LabelTemplate: template},
		Annotations: map[string]string{revision.Annotation: record},
	}}
}

// operator is a provider whose settings were accepted once, and a runtime cluster.
type operator struct {
	*reconciler

	t      *testing.T
	writes int
}

func newOperator(t *testing.T, spec sandbarv1alpha1.InfrastructureProviderSpec, onRuntime ...client.Object) *operator {
	t.Helper()
	o := &operator{t: t}
	p := provider()
	p.Spec = spec
	export := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "sandbar.dev"}}
	fit := func(context.Context) (Runtime, error) { return Runtime{"v1.36.3", "v0.9.4"}, nil }
	o.reconciler = newReconciler(t, &o.writes, fit, p, export)
	config := &corev1.ConfigMap{ // as it was published before changes were checked
		ObjectMeta: metav1.ObjectMeta{Namespace: platformKey(placement.Names{}).Namespace, Name: platformKey(placement.Names{}).Name}, Data: ConfigMapData(&spec),
	}
	o.runtime = counted(&o.writes, fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(append(onRuntime, config)...))
	o.live = o.runtime
	o.probe.look(t.Context())
	o.run(t)
	return o
}

// change changes the spec and returns what the condition then says.
func (o *operator) change(change func(*sandbarv1alpha1.InfrastructureProviderSpec)) *metav1.Condition {
	o.t.Helper()
	p := &sandbarv1alpha1.InfrastructureProvider{}
	if err := o.kcp.Get(o.t.Context(), client.ObjectKey{Name: "default"}, p); err != nil {
		o.t.Fatal(err)
	}
	change(&p.Spec)
	p.Generation++
	if err := o.kcp.Update(o.t.Context(), p); err != nil {
		o.t.Fatal(err)
	}
	got := o.run(o.t)
	return meta.FindStatusCondition(got.Status.Conditions, sandbarv1alpha1.ProviderPlatformPublished)
}

func (o *operator) published() (map[string]string, *sandbarv1alpha1.InfrastructureProviderSpec) {
	o.t.Helper()
	config := &corev1.ConfigMap{}
	if err := o.runtime.Get(o.t.Context(), platformKey(placement.Names{}), config); err != nil {
		o.t.Fatal(err)
	}
	spec, err := Settings(o.t.Context(), o.runtime, placement.Names{}, &sandbarv1alpha1.InfrastructureProvider{})
	if err != nil {
		o.t.Fatal(err)
	}
	return config.Data, spec
}

func TestAChangeThatBreaksInstancesCountsForNothing(t *testing.T) {
	spec := sandbarv1alpha1.InfrastructureProviderSpec{
		DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"},
		Images:    map[string]string{"node": "registry.test/node:1", "old": "Kept As It Was"},
	}
	onRuntime := func(t *testing.T) []client.Object {
		return []client.Object{
			served(t, "app", "platform.data.nodeImage"), served(t, "careful", "platform.data.?otherImage.orValue(\"x\")"),
			&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}},
		}
	}
	type settings = sandbarv1alpha1.InfrastructureProviderSpec
	for name, tc := range map[string]struct {
		change func(*settings)
		reason string // empty: it counts
		says   string
	}{
		"an image goes that a graph reads":          {func(s *settings) { delete(s.Images, "node") }, reasonImageMissing, "Template app needs it (platform.data.nodeImage)"},
		"an image becomes empty":                    {func(s *settings) { s.Images["node"] = "" }, reasonImageMissing, "Template app"},
		"an image becomes another":                  {func(s *settings) { s.Images["node"] = "registry.test/node:2" }, "", ""},
		"an image goes that nobody reads":           {func(s *settings) { delete(s.Images, "old") }, "", ""},
		"an image goes that a graph can do without": {func(s *settings) { s.Images["other"] = "x:1" }, "", ""},
		"an image that cannot be one":               {func(s *settings) { s.Images["new"] = "UPPER/case: 1" }, reasonImageInvalid, "spec.images.new"},
		"a runtime class that there is":             {func(s *settings) { s.Isolation.RuntimeClassName = "gvisor" }, "", ""},
		"a runtime class that there is not":         {func(s *settings) { s.Isolation.RuntimeClassName = "kata" }, reasonRuntimeClassMissing, `"kata"`},
		"a placement class's runtime class that there is not": {func(s *settings) {
			s.PlacementClasses = map[string]sandbarv1alpha1.PlacementClass{"small": {}, "spot": {RuntimeClassName: "kata"}}
		}, reasonRuntimeClassMissing, `spec.placementClasses.spot.runtimeClassName: the runtime cluster has no RuntimeClass "kata"`},
		"what cannot be made": {func(s *settings) { s.Isolation.PodSecurity = "impossible" }, reasonSettingsRefused, "impossible"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperator(t, *spec.DeepCopy(), onRuntime(t)...)
			o.opts.Try = func(_ context.Context, s *settings) error {
				if s.Isolation.PodSecurity == "impossible" {
					return fmt.Errorf("%w: impossible", ErrRefused)
				}
				return nil
			}
			before, accepted := o.published()
			c := o.change(tc.change)
			after, now := o.published()
			if tc.reason == "" {
				if c.Status != metav1.ConditionTrue || (maps.Equal(before, after) && name != "a runtime class that there is" && name != "an image goes that nobody reads") {
					t.Errorf("condition %+v, and the values are %v", c, after)
				}
				return
			}
			if c.Status != metav1.ConditionFalse || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) || !strings.Contains(c.Message, "Nothing of this change was published") {
				t.Errorf("condition %+v, want %s with %q", c, tc.reason, tc.says)
			}
			if !maps.Equal(before, after) || now.Isolation.RuntimeClassName != accepted.Isolation.RuntimeClassName {
				t.Errorf("it was published: %v, was %v", after, before)
			}
			// What somebody changes by hand meanwhile is mended to what was accepted.
			config := &corev1.ConfigMap{}
			if err := o.runtime.Get(t.Context(), platformKey(placement.Names{}), config); err != nil {
				t.Fatal(err)
			}
			config.Data["nodeImage"] = "by hand"
			if err := o.runtime.Update(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			o.run(t)
			if mended, _ := o.published(); !maps.Equal(before, mended) {
				t.Errorf("the values are %v, want %v", mended, before)
			}
		})
	}
}

// What is wrong already must not hold up what mends something else.
func TestWhatWasMissingBeforeDoesNotHoldUpAChange(t *testing.T) {
	o := newOperator(t, sandbarv1alpha1.InfrastructureProviderSpec{DataPlane: sandbarv1alpha1.DataPlaneAddress{URL: "https://dp"}},
		served(t, "app", "platform.data.nodeImage"))
	c := o.change(func(s *sandbarv1alpha1.InfrastructureProviderSpec) { s.Images = map[string]string{"other": "x:1"} })
	if c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

func TestSettingsThatWereNeverAcceptedAreThoseOfTheObject(t *testing.T) {
	p := provider()
	reader := fake.NewClientBuilder().WithScheme(runtime.NewScheme())
	scheme := newScheme(t)
	got, err := Settings(t.Context(), reader.WithScheme(scheme).Build(), placement.Names{}, p)
	if err != nil || got.DataPlane.URL != p.Spec.DataPlane.URL {
		t.Errorf("%+v, %v", got, err)
	}
	damaged := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: platformKey(placement.Names{}).Namespace, Name: platformKey(placement.Names{}).Name, Annotations: map[string]string{AnnotationSettings: "{"},
	}}
	got, err = Settings(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(damaged).Build(), placement.Names{}, p)
	if err != nil || got.DataPlane.URL != p.Spec.DataPlane.URL {
		t.Errorf("%+v, %v", got, err)
	}
}

// The runtime cluster may have had another provider before.
func TestWhatAnotherInfrastructureProviderSaidIsNotAccepted(t *testing.T) {
	p := provider()
	p.UID = "mine"
	foreign := p.Spec.DeepCopy()
	foreign.DataPlane.URL = "https://other.example.test"
	for of, want := range map[types.UID]string{"mine": foreign.DataPlane.URL, "other": p.Spec.DataPlane.URL} {
		said, err := json.Marshal(settings{Of: of, Spec: foreign})
		if err != nil {
			t.Fatal(err)
		}
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: platformKey(placement.Names{}).Namespace, Name: platformKey(placement.Names{}).Name, Annotations: map[string]string{AnnotationSettings: string(said)},
		}}
		got, err := Settings(t.Context(), fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(config).Build(), placement.Names{}, p)
		if err != nil || got.DataPlane.URL != want {
			t.Errorf("of %s: %+v, %v", of, got, err)
		}
	}
}

func TestAnOutageIsNoRefusal(t *testing.T) {
	o := newOperator(t, provider().Spec)
	o.opts.Try = func(context.Context, *sandbarv1alpha1.InfrastructureProviderSpec) error {
		return errors.New("no answer")
	}
	p := &sandbarv1alpha1.InfrastructureProvider{}
	if err := o.kcp.Get(t.Context(), client.ObjectKey{Name: "default"}, p); err != nil {
		t.Fatal(err)
	}
	p.Spec.Images = map[string]string{"new": "x:1"}
	if err := o.kcp.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var refused *refusal
	if err := o.check(t.Context(), &p.Spec, &sandbarv1alpha1.InfrastructureProviderSpec{}); err == nil || errors.As(err, &refused) {
		t.Errorf("the error is %v, want one that is tried again", err)
	}
}
