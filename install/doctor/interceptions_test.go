// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func TestWhatIsWrongWithProxiesIsFound(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	switched := intercept.Switched(service, nil)
	merged := switched.DeepCopy()
	merged.Spec.Selector["app"] = "web"
	intent := intercept.Intent{UID: "a"}
	config := func(state intercept.State, intents bool) client.Object {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: intercept.RoutesConfigMap, Labels: map[string]string{placement.LabelManagedBy: placement.ManagedBy}}}
		if intents {
			c.Data = map[string]string{intercept.IntentKey("web", "a"): intent.Encode(), intercept.StateKey("web"): state.Encode()}
		}
		return c
	}
	attached := intercept.State{Reason: sandbarv1alpha1.RouteAttached, Switched: true}
	of := func(reason, message string) intercept.State { return intercept.State{Reason: reason, Message: message} }
	admits := &sandbarv1alpha1.Baseline{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	admits.Spec.Namespaces, admits.Spec.Routing.Proxy.Enabled = []sandbarv1alpha1.BaselineNamespace{{Name: "prod"}}, true
	stuck := attached
	stuck.Detail = "the quota"
	crowded := attached
	crowded.Refused = map[types.UID]string{"a": "full"}
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"nothing":                      {nil, []string{"ok: 0 Services"}},
		"proxies in front":             {[]client.Object{switched, config(attached, true)}, []string{"ok: 1 Services"}},
		"nobody asks":                  {[]client.Object{switched, config(attached, false)}, []string{"failed: Service prod/web has the selector or the annotation of proxies that nobody asks for"}},
		"the ConfigMap is gone":        {[]client.Object{switched}, []string{"failed: that nobody asks for"}},
		"a selector that is merged":    {[]client.Object{merged, config(attached, true)}, []string{"failed: neither its owner's nor that of its proxies"}},
		"proxies that are not ready":   {[]client.Object{service, config(of(sandbarv1alpha1.RouteProxyNotReady, "slow"), true)}, []string{"warning: prod/web: ProxyNotReady: slow"}},
		"a conflict":                   {[]client.Object{service, config(of(sandbarv1alpha1.RouteOwnershipConflict, "argocd"), true)}, []string{"warning: OwnershipConflict: argocd"}},
		"no controllers":               {[]client.Object{service, config(intercept.State{}, true)}, []string{"warning: nothing has come of it"}},
		"proxies that cannot change":   {[]client.Object{switched, config(stuck, true)}, []string{"warning: lead requests, but cannot be changed: the quota"}},
		"too many rules":               {[]client.Object{switched, config(crowded, true)}, []string{"warning: no room for the rules of 1 SandboxRoutes"}},
		"neither a right nor an image": {[]client.Object{admits}, []string{"warning: there is no image for them", "warning: admits proxies in namespace prod, where the controllers have no right"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := having(t, c.objects...).checkInterceptions(t.Context())
			if len(found) != len(c.want) {
				t.Fatalf("%+v", found)
			}
			for i := range found {
				expect(t, found[i:i+1], c.want[i])
			}
		})
	}
}
