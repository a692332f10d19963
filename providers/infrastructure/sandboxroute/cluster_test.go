// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package sandboxroute

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func httpRouteText(name, uid string) string {
	return `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: ` + placed + `, name: ` + name + `, uid: of-` + uid +
		`, labels: {` + placement.LabelRouteUID + `: ` + uid + `}}, spec: {hostnames: [a.example.com]}}`
}

func newCluster(t *testing.T, texts ...string) (cluster, *fake.FakeDynamicClient) {
	t.Helper()
	var objects []runtime.Object
	for _, text := range texts {
		objects = append(objects, objectOf(t, text))
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{httpRoutes: "HTTPRouteList"}, objects...)
	return cluster{client}, client
}

// Two SandboxRoutes of one group can come to the same name: preview with 17 rules, and preview-2.
func TestAnHTTPRouteOfAnotherSandboxRouteIsNotWrittenOver(t *testing.T) {
	c, client := newCluster(t, httpRouteText("preview-2", "other"))
	if _, err := c.apply(t.Context(), objectOf(t, httpRouteText("preview-2", "r")), false); !errors.Is(err, errNotOurs) {
		t.Errorf("%v", err)
	}
	for _, action := range client.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("it does a %s", action.GetVerb())
		}
	}
}

func TestAnHTTPRouteIsAppliedAsAWhole(t *testing.T) {
	c, client := newCluster(t, httpRouteText("preview", "r"))
	client.PrependReactor("patch", "httproutes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchActionImpl)
		options := patch.GetPatchOptions()
		if options.FieldManager != fieldOwner || options.Force == nil || !*options.Force || !strings.Contains(string(patch.Patch), "a.example.com") {
			t.Errorf("%+v: %s", options, patch.Patch)
		}
		return true, objectOf(t, httpRouteText("preview", "r")), nil
	})
	if written, err := c.apply(t.Context(), objectOf(t, httpRouteText("preview", "r")), true); err != nil || written.GetUID() != "of-r" {
		t.Errorf("%v, %v", written, err)
	}
}

func TestTheHTTPRoutesOfASandboxRouteAreFoundAndRemoved(t *testing.T) {
	c, client := newCluster(t, httpRouteText("preview", "r"), httpRouteText("other", "s"))
	list, err := c.routesOf(t.Context(), "r")
	if err != nil || len(list) != 1 || list[0].GetName() != "preview" {
		t.Fatalf("%v, %v", list, err)
	}
	client.PrependReactor("delete", "httproutes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if uid := action.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions.UID; *uid != "of-r" {
			return true, nil, apierrors.NewConflict(httpRoutes.GroupResource(), "preview", errors.New("the UID is another"))
		}
		return false, nil, nil
	})
	if err := c.remove(t.Context(), placed, "preview", "of-another"); err != nil {
		t.Errorf("a later one of its name: %v", err)
	}
	if err := c.remove(t.Context(), placed, "preview", "of-r"); err != nil {
		t.Error(err)
	}
	if err := c.remove(t.Context(), placed, "preview", "of-r"); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	if _, err := client.Resource(httpRoutes).Namespace(placed).Get(t.Context(), "preview", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
}

func TestWithoutTheGatewayAPIThereAreNoHTTPRoutes(t *testing.T) {
	c, client := newCluster(t)
	client.PrependReactor("list", "httproutes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(httpRoutes.GroupResource(), "")
	})
	if list, err := c.routesOf(t.Context(), "r"); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}
