// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/pem"
	"net/http/httptest"
	"testing"
	"time"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/inuse"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func certificateOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// having is an examination of servers that have some objects each.
func having(t *testing.T, objects ...client.Object) *examination {
	t.Helper()
	known, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	both := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).WithStatusSubresource(&sandbarv1alpha1.Template{}).Build()
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	provider.Spec.Images = map[string]string{"runner": "example.com/runner:1"}
	return &examination{kcp: both, runtime: both, provider: provider, Options: Options{ExportName: "sandbar.dev", Workspace: "root:sandbar"}}
}

func TestTheExport(t *testing.T) {
	export := func(resources int, status corev1.ConditionStatus) *kcpapisv1alpha2.APIExport {
		e := &kcpapisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: "sandbar.dev"}}
		for range resources {
			e.Spec.Resources = append(e.Spec.Resources, kcpapisv1alpha2.ResourceSchema{Name: "sandboxes", Group: "sandbar.dev"})
		}
		e.Status.Conditions = conditionsv1alpha1.Conditions{{Type: kcpapisv1alpha2.APIExportIdentityValid, Status: status, Message: "no Secret"}}
		return e
	}
	expect(t, having(t).checkExport(t.Context()), "failed: sandbar-provider init")
	expect(t, having(t, export(1, corev1.ConditionTrue)).checkExport(t.Context()), "ok: serves sandboxes")
	expect(t, having(t, export(0, corev1.ConditionTrue)).checkExport(t.Context()), "failed: has no kinds")
	expect(t, having(t, export(1, corev1.ConditionFalse)).checkExport(t.Context()), "failed: IdentityValid is False: no Secret")
}

func TestTemplatesThatAreNotReady(t *testing.T) {
	of := func(name string, conditions ...metav1.Condition) *sandbarv1alpha1.Template {
		tmpl := &sandbarv1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Name: name}}
		tmpl.Status.Conditions = conditions
		return tmpl
	}
	ready := metav1.Condition{Type: sandbarv1alpha1.TemplateReady, Status: metav1.ConditionTrue}
	refused := metav1.Condition{Type: sandbarv1alpha1.TemplateReady, Status: metav1.ConditionFalse, Reason: "GraphRefused", Message: "a message"}
	expect(t, having(t).checkTemplates(t.Context()), "warning: there are no Templates")
	expect(t, having(t, of("a", ready), of("b", ready)).checkTemplates(t.Context()), "ok: 2 Templates")
	expect(t, having(t, of("a", ready), of("b", refused), of("c")).checkTemplates(t.Context()),
		"failed: the Template b is not Ready: GraphRefused: a message", "failed: the Template c has no condition")
}

func TestBaselinesThatAreNotReady(t *testing.T) {
	of := func(name string, conditions ...metav1.Condition) *sandbarv1alpha1.Baseline {
		b := &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: name}}
		b.Status.Conditions = conditions
		return b
	}
	ready := metav1.Condition{Type: sandbarv1alpha1.BaselineReady, Status: metav1.ConditionTrue}
	refused := metav1.Condition{Type: sandbarv1alpha1.BaselineReady, Status: metav1.ConditionFalse, Reason: "NotAllowed", Message: "a message"}
	absent := metav1.Condition{Type: sandbarv1alpha1.BaselineReady, Status: metav1.ConditionFalse, Reason: "NamespaceMissing", Message: "another"}
	expect(t, having(t).checkBaselines(t.Context()), "ok: there are no Baselines")
	expect(t, having(t, of("a", ready), of("b", ready)).checkBaselines(t.Context()), "ok: 2 Baselines")
	expect(t, having(t, of("a", ready), of("b", refused), of("c"), of("d", absent)).checkBaselines(t.Context()),
		"warning: sandbar-provider baseline grant b", "warning: the Baseline c has no condition", "warning: the Baseline d is not Ready: NamespaceMissing: another")
}

func TestGraphsOfKro(t *testing.T) {
	of := func(name string, state krov1alpha1.ResourceGraphDefinitionState, ours bool) *krov1alpha1.ResourceGraphDefinition {
		g := &krov1alpha1.ResourceGraphDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if ours {
			g.Labels = map[string]string{placement.LabelManagedBy: placement.ManagedBy}
		}
		g.Status.State = state
		return g
	}
	active := krov1alpha1.ResourceGraphDefinitionStateActive
	expect(t, having(t, of("a", active, true), of("another's", "Inactive", false)).checkKro(t.Context()), "ok: 1 graphs")
	expect(t, having(t, of("a", active, true), of("b", "Inactive", true)).checkKro(t.Context()), "failed: the graph b")
}

func TestConditionsArePassedOn(t *testing.T) {
	e := having(t)
	e.provider.Status.Conditions = []metav1.Condition{
		{Type: sandbarv1alpha1.ProviderRuntimeReachable, Status: metav1.ConditionTrue, Message: "it answers"},
		{Type: sandbarv1alpha1.ProviderPlatformPublished, Status: metav1.ConditionTrue, Message: "published"},
		{Type: sandbarv1alpha1.ProviderComposing, Status: metav1.ConditionFalse, Reason: "NotComposing", Message: "see kro"},
		{Type: sandbarv1alpha1.ProviderUnusedEnds, Status: metav1.ConditionTrue, Message: "they end"},
		{Type: sandbarv1alpha1.ProviderNetworkPolicyEnforced, Status: metav1.ConditionUnknown, Reason: "NoPod", Message: "no room"},
	}
	expect(t, e.checkConditions(t.Context()), "ok: it answers", "ok: published", "failed: NotComposing: see kro",
		"ok: they end", "warning: no room", "warning: DNSReachable is not known yet")
}

func TestReplicas(t *testing.T) {
	of := func(name string, age time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: placement.SystemNamespace, Name: placement.ReplicaLeasePrefix + name, Labels: map[string]string{placement.LabelReplica: name}},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now().Add(-age)}},
		}
	}
	silent := 2 * inuse.SilentAfter
	expect(t, having(t).checkReplicas(t.Context()), "failed: no verb of any tenant works")
	expect(t, having(t, of("a", 0), of("b", 0)).checkReplicas(t.Context()), "ok: 2 replicas of the data plane serve: a; b")
	expect(t, having(t, of("a", 0), of("b", silent)).checkReplicas(t.Context()), "warning: silent: b")
	expect(t, having(t, of("b", silent)).checkReplicas(t.Context()), "failed: no replica")
}

func TestStorage(t *testing.T) {
	of := func(name, isDefault string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{defaultClass: isDefault}}}
	}
	expect(t, having(t).checkStorage(t.Context()), "warning: none of the 0 StorageClasses")
	expect(t, having(t, of("slow", "false")).checkStorage(t.Context()), "warning: none of the 1 StorageClasses")
	expect(t, having(t, of("slow", "false"), of("fast", "true")).checkStorage(t.Context()), "ok: StorageClass fast")
}

func TestPodsThatWaitForAnImage(t *testing.T) {
	of := func(name, image, reason string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sb-1", Name: name, Labels: map[string]string{placement.LabelInstanceUID: "u"}}}
		status := corev1.ContainerStatus{Image: image}
		if reason != "" {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		return p
	}
	expect(t, having(t, of("a", "tenant/app", ""), of("b", "tenant/app", "ContainerCreating")).checkImages(t.Context()), "ok: none of 2 pods")
	expect(t, having(t, of("a", "example.com/runner:1", "ErrImagePull"), of("b", "example.com/runner:1", "ImagePullBackOff"), of("c", "tenant/app", "ImagePullBackOff")).checkImages(t.Context()),
		"failed: 2 pods wait for example.com/runner:1", "warning: 1 pods wait for the image tenant/app")
	e := having(t)
	e.provider.Spec.Images = nil
	expect(t, e.checkImages(t.Context()), "failed: there is no image runner")
}

func TestTheGateway(t *testing.T) {
	of := func(from string, conditions ...any) *unstructured.Unstructured {
		g := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "infra", "name": "web"},
			"spec":     map[string]any{"listeners": []any{map[string]any{"name": "https", "allowedRoutes": map[string]any{"namespaces": map[string]any{"from": from}}}}},
			"status":   map[string]any{"conditions": conditions},
		}}
		g.SetGroupVersionKind(gatewayKind)
		return g
	}
	is := func(name, status string) map[string]any {
		return map[string]any{"type": name, "status": status, "reason": "AReason", "message": "a message"}
	}
	look := func(objects ...client.Object) []Finding {
		e := having(t, objects...)
		e.provider.Spec.Preview = &sandbarv1alpha1.Preview{GatewayRef: &sandbarv1alpha1.GatewayReference{Namespace: "infra", Name: "web"}}
		return e.checkGateway(t.Context())
	}
	expect(t, having(t).checkGateway(t.Context()), "skipped: there is no Gateway")
	expect(t, look(), "failed: cannot be read")
	expect(t, look(of("All", is("Accepted", "True"), is("Programmed", "True"))), "ok: is programmed")
	expect(t, look(of("Same", is("Accepted", "True"), is("Programmed", "True"))), "failed: no listener")
	expect(t, look(of("All", is("Accepted", "True"), is("Programmed", "False"))), "failed: Programmed is False: AReason: a message")
	expect(t, look(of("All")), "failed: Accepted is not known", "failed: Programmed is not known")

	routes := func(objects ...client.Object) []Finding {
		b := &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
		b.Spec.Routing.Gateway.ParentRefs = []sandbarv1alpha1.BaselineParent{{Namespace: "infra", Name: "web"}, {Namespace: "infra", Name: "web", SectionName: "https"}}
		return having(t, append(objects, b)...).checkBaselineGateways(t.Context())
	}
	expect(t, having(t).checkBaselineGateways(t.Context()), "skipped: no Baseline has Gateways")
	expect(t, routes(), "warning: cannot be read")
	expect(t, routes(of("Selector", is("Accepted", "True"), is("Programmed", "True"))), "ok: 1 Gateways of Baselines")
	expect(t, routes(of("Same", is("Accepted", "True"), is("Programmed", "True"))), "warning: no listener")
}
