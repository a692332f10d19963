// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

const (
	namespaceObject = "{apiVersion: v1, kind: Namespace, metadata: {name: storefront}}"
	rolloutObject   = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: rollouts.argoproj.io}}"
)

// cluster is a runtime cluster that can refuse what is read in a namespace.
type cluster struct {
	*dynamicfake.FakeDynamicClient
	sources *sources

	mu sync.Mutex
	// refuses are resources that may not be read.
	refuses map[string]bool
	asked   map[string]int
	told    []string
}

// newCluster begins with some objects, and ends its watches with the test. Then no goroutine of them may be left.
func newCluster(t *testing.T, objects ...string) *cluster {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	lists := map[schema.GroupVersionResource]string{
		namespaces: "NamespaceList", services: "ServiceList", definitions: "CustomResourceDefinitionList", rollouts: "RolloutList",
		workloads[sandbarv1alpha1.BaselineDeployment]: "DeploymentList", workloads[sandbarv1alpha1.BaselineStatefulSet]: "StatefulSetList",
	}
	var initial []runtime.Object
	for _, text := range objects {
		initial = append(initial, objectOf(t, text))
	}
	c := &cluster{
		FakeDynamicClient: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, initial...),
		refuses:           map[string]bool{}, asked: map[string]int{},
	}
	c.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked[resource.Resource]++
		if c.refuses[resource.Resource] {
			return true, nil, apierrors.NewForbidden(resource.GroupResource(), "", nil)
		}
		return false, nil, nil
	})
	c.sources = newSources(c, func(baselines []string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = append(c.told, baselines...)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = c.sources.Start(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return c
}

func (c *cluster) refuse(resource string, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses[resource] = refused
}

func (c *cluster) askedFor(resource string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[resource]
}

// forget returns the Baselines that were told of since the last call.
func (c *cluster) forget() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	c.told = nil
	return told
}

func (c *cluster) put(t *testing.T, gvr schema.GroupVersionResource, text string) {
	t.Helper()
	u := objectOf(t, text)
	if _, err := c.Resource(gvr).Namespace(u.GetNamespace()).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) remove(t *testing.T, gvr schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	if err := c.Resource(gvr).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) view() view {
	views, _ := c.sources.look([]string{"storefront"})
	return views["storefront"]
}

// becomes polls the watches of a cluster.
func becomes(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited in vain until %s", what)
}

func TestANamespaceIsFollowedFromItsCreationToItsDeletion(t *testing.T) {
	c := newCluster(t)
	c.sources.want("shop", []string{"storefront"})
	becomes(t, "the namespace is missing", func() bool { return c.view().state == missing })
	if n := c.askedFor("deployments"); n > 0 {
		t.Errorf("a namespace that is not there was asked for Deployments %d times", n)
	}
	c.put(t, namespaces, namespaceObject)
	becomes(t, "the namespace is read", func() bool { return c.view().state == read })
	c.forget()
	c.put(t, workloads[sandbarv1alpha1.BaselineDeployment], frontend)
	becomes(t, "the Deployment is there, and its Baseline is told", func() bool {
		return len(c.view().workloads[sandbarv1alpha1.BaselineDeployment]) == 1 && slices.Contains(c.forget(), "shop")
	})
	c.remove(t, namespaces, "", "storefront")
	becomes(t, "the namespace is missing again", func() bool { return c.view().state == missing })
}

func TestWithoutTheRoleANamespaceMayNotBeRead(t *testing.T) {
	c := newCluster(t, namespaceObject, frontend)
	c.refuse("services", true)
	c.sources.want("shop", []string{"storefront"})
	becomes(t, "it is forbidden", func() bool { return c.view().state == forbidden })
	if v := c.view(); len(v.workloads) > 0 {
		t.Errorf("something of it is shown: %+v", v)
	}
	c.forget()
	c.refuse("services", false)
	becomes(t, "it is read, and the Baseline is told", func() bool { return c.view().state == read && slices.Contains(c.forget(), "shop") })
}

func TestRolloutsAreFollowedWhileTheyAreServed(t *testing.T) {
	c := newCluster(t, namespaceObject, worker)
	served := func() bool { _, served := c.sources.look(nil); return served }
	c.sources.want("shop", []string{"storefront"})
	becomes(t, "the namespace is read", func() bool { return c.view().state == read })
	if served() || c.askedFor("rollouts") > 0 {
		t.Errorf("Rollouts were asked for %d times", c.askedFor("rollouts"))
	}
	c.put(t, definitions, rolloutObject)
	becomes(t, "the Rollout is found", func() bool { return served() && len(c.view().workloads[sandbarv1alpha1.BaselineRollout]) == 1 })
	c.remove(t, definitions, "", rolloutDefinition)
	becomes(t, "the Rollout is gone", func() bool { return !served() && len(c.view().workloads[sandbarv1alpha1.BaselineRollout]) == 0 })
}

// A thousand Baselines of the past must not keep a watch each.
func TestNothingIsFollowedThatNoBaselineWants(t *testing.T) {
	c := newCluster(t, namespaceObject)
	c.sources.want("shop", []string{"storefront"})
	c.sources.want("other", []string{"storefront"})
	becomes(t, "the namespace is read", func() bool { return c.view().state == read })
	c.sources.want("shop", nil)
	if c.view().state != read {
		t.Error("the other Baseline has lost its namespace")
	}
	c.sources.want("other", []string{"elsewhere"})
	if views, _ := c.sources.look([]string{"storefront"}); len(views) > 0 {
		t.Errorf("it is still followed: %+v", views)
	}
	c.sources.want("other", nil)
	c.sources.mu.Lock()
	defer c.sources.mu.Unlock()
	if len(c.sources.followed) > 0 || c.sources.rollouts != nil {
		t.Errorf("%v, %v", c.sources.followed, c.sources.rollouts)
	}
}

// A Deployment that scales writes its status again and again, and its annotations with each revision.
func TestAChangeThatNoStatusShowsIsNone(t *testing.T) {
	change := func(version string, replicas int64) *item {
		u := objectOf(t, frontend)
		u.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": version})
		u.SetResourceVersion(version)
		u.Object["spec"].(map[string]any)["replicas"] = replicas
		u.Object["status"] = map[string]any{"replicas": replicas}
		return keep(u)
	}
	if !change("1", 2).same(change("2", 2)) {
		t.Error("another revision is a change")
	}
	if change("2", 2).same(change("3", 7)) {
		t.Error("other replicas are none")
	}
}
