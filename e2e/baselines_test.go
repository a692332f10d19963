// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/client"
)

var (
	baselines   = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "baselines"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// TestBaselines is the promise of what an operator offers of the runtime cluster: the provider reads a namespace only once
// an administrator has opened it, a workspace sees what admits it and nothing else, and all of it can be taken back.
func TestBaselines(t *testing.T) {
	calm(t)
	alice, bob := newTenant(t, "alice"), newTenant(t, "bob")
	o := newOffer(t, alice.path)
	asAlice, asBob := callAs(t, alice.token), callAs(t, bob.token)

	o.waitReason("NotAllowed", "run sandbar-provider baseline grant "+o.name)
	if got := o.seenBy(asAlice, alice.path); got == nil || got.Ready || len(got.Workloads)+len(got.Services) > 0 {
		t.Errorf("before the grant it sees %+v", got)
	}
	if out, err := world.Grant(t.Context(), o.name); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o.waitReason("Ready", "")
	for _, workspace := range []string{alice.path, alice.cluster} {
		eventually(t, "the workspace sees it as "+workspace, func() error { return isStorefront(o.seenBy(asAlice, workspace)) })
	}
	s := newTerminal(t, alice)
	s.must("trust", world.URL, "--ca-file", world.CAFile)
	if got := s.must("baselines", o.name); !strings.Contains(got, "Deployment/frontend") || !strings.Contains(got, "http:8080") || strings.Contains(got, o.shop) {
		t.Errorf("the command prints\n%s", got)
	}

	if got := o.seenBy(asBob, bob.path); got != nil {
		t.Errorf("another workspace sees %+v", got)
	}
	asBob.want(403, "GET", "/dataplane/clusters/"+alice.path+"/baselines", nil)
	path := "/dataplane/clusters/" + bob.path + "/baselines?name="
	if hidden, absent := asBob.want(200, "GET", path+o.name, nil), asBob.want(200, "GET", path+"nosuch", nil); hidden != absent {
		t.Errorf("one that is not offered is answered %s, and one that is not there %s", hidden, absent)
	}

	if err := o.dyn.Resource(baselines).Delete(t.Context(), o.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a Baseline that is gone is not seen", func() error {
		if got := o.seenBy(asAlice, alice.path); got != nil {
			return fmt.Errorf("it sees %+v", got)
		}
		return nil
	})
	if out, err := world.Grant(t.Context(), "--all"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, namespace := range []string{o.shop, o.mail} {
		_, err := o.runtime.RbacV1().RoleBindings(namespace).Get(t.Context(), "sandbar-baseline", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the rights in %s are still there (%v)", namespace, err)
		}
	}
}

// TestABaselineNamesNoNamespaceOfTheSystem: kcp itself refuses it.
func TestABaselineNamesNoNamespaceOfTheSystem(t *testing.T) {
	calm(t)
	dyn := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace))
	for _, namespace := range []string{"kube-system", "sandbar-system", "kro-system", "sb-aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		b := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "Baseline", "metadata": map[string]any{"name": "system-" + randomHex(3)},
			"spec": map[string]any{"namespaces": []any{map[string]any{"name": namespace}}},
		}}
		if _, err := dyn.Resource(baselines).Create(t.Context(), b, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot be part of a Baseline") {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

// offer is the example of a Baseline, with its two namespaces on the runtime cluster.
type offer struct {
	t                *testing.T
	name, shop, mail string
	dyn              dynamic.Interface // of the provider workspace
	runtime          kubernetes.Interface
}

// newOffer makes the namespaces with a Deployment each, and the Baseline for a workspace. All of it goes with the test.
func newOffer(t *testing.T, workspace string) *offer {
	t.Helper()
	id := randomHex(4)
	o := &offer{
		t: t, name: "storefront-" + id, shop: "shop-" + id, mail: "mail-" + id,
		dyn:     dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)),
		runtime: kubernetes.NewForConfigOrDie(world.Runtime().Runtime()),
	}
	o.deploy(o.shop, "frontend", true)
	o.deploy(o.mail, "worker", false)
	text, err := os.ReadFile("../examples/operator/baseline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.NewReplacer("shop-staging", o.shop, "mail-staging", o.mail, "root:acme", workspace, "[frontend, api]", "[frontend]").Replace(string(text))
	b := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(replaced), &b.Object); err != nil {
		t.Fatal(err)
	}
	b.SetName(o.name)
	if _, err := o.dyn.Resource(baselines).Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating the Baseline: %v", err)
	}
	t.Cleanup(func() { _ = o.dyn.Resource(baselines).Delete(context.Background(), o.name, metav1.DeleteOptions{}) })
	return o
}

// deploy makes a namespace with a workload that has no pods, and one that the selector of the example leaves out.
func (o *offer) deploy(namespace, name string, withService bool) {
	o.t.Helper()
	ctx := o.t.Context()
	if _, err := o.runtime.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		_ = o.runtime.CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
	})
	admin := dynamic.NewForConfigOrDie(world.Runtime().Runtime())
	for workload, label := range map[string]string{name: "yes", "other": "no"} {
		d := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {sandbox: "%[2]s"}}
spec:
  replicas: 0
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: "localhost/%[1]s:1", env: [{name: PASSWORD, value: hunter2}], ports: [{name: http, containerPort: 8080}]}]}
`, workload, label), &d.Object); err != nil {
			o.t.Fatal(err)
		}
		if _, err := admin.Resource(deployments).Namespace(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
			o.t.Fatal(err)
		}
	}
	if !withService {
		return
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	if _, err := o.runtime.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

// waitReason waits until the condition Ready has a reason, and a message with some text.
func (o *offer) waitReason(reason, says string) {
	o.t.Helper()
	eventually(o.t, "the Baseline says "+reason, func() error {
		u, err := o.dyn.Resource(baselines).Get(o.t.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var b sandbarv1alpha1.Baseline
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b); err != nil {
			return err
		}
		for _, c := range b.Status.Conditions {
			if c.Type == sandbarv1alpha1.BaselineReady && c.Reason == reason && strings.Contains(c.Message, says) {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", b.Status.Conditions)
	})
}

// seenBy returns what a caller sees of the Baseline in a workspace; nil if nothing.
func (o *offer) seenBy(c *caller, workspace string) *client.Baseline {
	o.t.Helper()
	body := c.want(200, "GET", "/dataplane/clusters/"+workspace+"/baselines", nil)
	var list struct{ Items []client.Baseline }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		o.t.Fatal(err)
	}
	for _, leak := range []string{o.shop, o.mail, "hunter2"} {
		if strings.Contains(body, leak) {
			o.t.Errorf("the catalogue has %q: %s", leak, body)
		}
	}
	for i := range list.Items {
		if list.Items[i].Name == o.name {
			return &list.Items[i]
		}
	}
	return nil
}

// isStorefront is nil if a Baseline is shown as the example says.
func isStorefront(b *client.Baseline) error {
	if b == nil {
		return errors.New("it is not seen")
	}
	var names []string
	for _, w := range b.Workloads {
		names = append(names, w.Namespace+"/"+w.Kind+"/"+w.Name)
	}
	if got := strings.Join(names, " "); got != "storefront/Deployment/frontend mail/Deployment/worker" || !b.Ready || len(b.Services) != 1 || b.Services[0].Namespace != "storefront" {
		return fmt.Errorf("it sees %+v", b)
	}
	return nil
}
