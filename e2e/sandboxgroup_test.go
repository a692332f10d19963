// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

var groups = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxgroups"}

// shopScript answers with its own greeting, its Secret, and what the Service backend answers, if it is asked at /all.
const shopScript = `console.log("up", process.env.GREETING)
require("http").createServer(async (q, r) => {
  const own = process.env.GREETING + " " + (process.env.password || "-");
  try { r.end(q.url === "/all" ? own + " " + await (await fetch("http://backend")).text() : own); } catch (e) { r.end(own + " failed: " + e.cause); }
}).listen(8080)`

// shop is a Baseline with two services that run.
type shop struct {
	t               *testing.T
	name, namespace string
	dyn, cluster    dynamic.Interface // of the provider workspace, and of the runtime cluster
	kube            kubernetes.Interface
}

func newShop(t *testing.T, workspace string) *shop {
	t.Helper()
	id := randomHex(4)
	s := &shop{
		t: t, name: "shop-" + id, namespace: "prod-" + id,
		dyn:     dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)),
		cluster: dynamic.NewForConfigOrDie(world.Runtime().Runtime()), kube: kubernetes.NewForConfigOrDie(world.Runtime().Runtime()),
	}
	if _, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.kube.CoreV1().Namespaces().Delete(context.Background(), s.namespace, metav1.DeleteOptions{})
		_ = s.dyn.Resource(baselines).Delete(context.Background(), s.name, metav1.DeleteOptions{})
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db"}, StringData: map[string]string{"password": "hunter2"}}
	if _, err := s.kube.CoreV1().Secrets(s.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.deploy("frontend", 0)
	s.deploy("backend", 1)
	s.make(baselines, "", fmt.Sprintf(`{apiVersion: sandbar.dev/v1alpha1, kind: Baseline, metadata: {name: %s}, spec: {
		namespaces: [{name: %s, as: storefront}], workspaces: [{path: %q}], references: {secrets: {policy: Copy, names: [db]}}}}`, s.name, s.namespace, workspace))
	if out, err := world.Grant(t.Context(), s.name); err != nil || !strings.Contains(string(out), "the Secrets db") {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// make creates an object of the provider workspace, or of a namespace of the runtime cluster.
func (s *shop) make(gvr schema.GroupVersionResource, namespace, text string) {
	s.t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		s.t.Fatal(err)
	}
	resource := dynamic.ResourceInterface(s.dyn.Resource(gvr))
	if namespace != "" {
		resource = s.cluster.Resource(gvr).Namespace(namespace)
	}
	if _, err := resource.Create(s.t.Context(), obj, metav1.CreateOptions{}); err != nil {
		s.t.Fatalf("creating %s: %v", obj.GetName(), err)
	}
}

// deploy makes a workload and its Service.
func (s *shop) deploy(name string, replicas int) {
	s.t.Helper()
	s.make(deployments, s.namespace, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 0
      securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: app
          image: %[3]s
          command: [node, -e, %[4]q]
          env: [{name: GREETING, value: production-%[1]s}]
          envFrom: [{secretRef: {name: db}}]
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {port: http, path: /}, periodSeconds: 1}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`, name, replicas, toolchain, shopScript))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}}}
	if err := yaml.Unmarshal([]byte(`[{name: http, port: 80, targetPort: http}]`), &service.Spec.Ports); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.kube.CoreV1().Services(s.namespace).Create(s.t.Context(), service, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// answers waits until a Service of a placement answers so.
func (s *shop) answers(namespace, service, path, want string) {
	s.t.Helper()
	eventually(s.t, service+" answers "+want, func() error {
		got, err := s.kube.CoreV1().Services(namespace).ProxyGet("http", service, "http", path, nil).DoRaw(s.t.Context())
		if err == nil && string(got) != want {
			err = fmt.Errorf("it answers %s", got)
		}
		return err
	})
}

// groupStatus is what the status of a group says of its copies.
func groupStatus(t *testing.T, group *instance) (status sandbarv1alpha1.SandboxGroupStatus) {
	t.Helper()
	obj, err := group.get()
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object["status"].(map[string]any), &status); err != nil {
		t.Fatal(err)
	}
	return status
}

// verbs uses the components of a group by the command line, and as a program does.
func (s *shop) verbs(t *testing.T, group *instance) {
	caller := callAs(t, group.tn.token)
	if got := caller.want(http.StatusOK, "GET", group.base()+"/components/web/ports/http/proxy/", nil); got != "mine hunter2" {
		t.Errorf("proxy: %q", got)
	}
	caller.wantStatus(http.StatusNotFound, "GET", group.base()+"/components/backend/log", nil)
	terminal := newTerminal(t, group.tn)
	terminal.must("trust", world.URL, "--ca-file", world.CAFile)
	code, out, _ := terminal.run("logs", "sandboxgroup/checkout")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if want := []string{"plain | up production-frontend", "web | up mine"}; code != 0 || !slices.Equal(lines, want) {
		t.Errorf("logs: exit code %d, %q, want %q", code, lines, want)
	}
	if out = terminal.must("exec", "sandboxgroup/checkout", "--component", "web", "--", "printenv", "GREETING"); out != "mine\n" {
		t.Errorf("exec: %q", out)
	}
	code, _, notes := terminal.run("exec", "sandboxgroup/checkout", "--", "true")
	if code == 0 || !strings.Contains(notes, "add --component, with one of plain, web") {
		t.Errorf("exec without a component: exit code %d, %q", code, notes)
	}
}

// TestASandboxGroupHasCopiesOfWhatRuns: copies of two workloads of a Baseline, changed as the tenant says, that use the rest
// of what runs there; frozen as they were; and nothing left, nor changed in the Baseline, when they go.
func TestASandboxGroupHasCopiesOfWhatRuns(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	s := newShop(t, tn.path)
	tn.waitServed(groups)
	tn.waitRight(groups)
	const source = `sourceRef: {apiVersion: apps/v1, kind: Deployment, name: frontend, namespace: storefront}`
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(`{baselineRef: {name: `+s.name+`}, components: [
		{name: web, `+source+`, overrides: {replicas: 1, containers: [{name: app, env: [{name: GREETING, value: mine}]}]}},
		{name: plain, `+source+`, overrides: {replicas: 1}}]}`), &spec); err != nil {
		t.Fatal(err)
	}
	group := tn.create(groups, "SandboxGroup", "checkout", spec)
	group.waitReady()
	status := groupStatus(t, group)
	if len(status.Components) != 2 || !strings.HasPrefix(status.SandboxID, "sbx-") {
		t.Fatalf("%+v", status)
	}
	for _, row := range status.Components {
		if !row.Ready || row.Snapshot.Template != nil || row.Snapshot.Images[0] != toolchain || row.ServiceName != "checkout-"+row.Name+"-svc" ||
			len(row.ServicePorts) != 1 || !meta.IsStatusConditionTrue(row.Conditions, sandbarv1alpha1.ComponentApplied) {
			t.Errorf("%+v", row)
		}
	}
	placed := group.id.Namespace()
	s.answers(placed, "checkout-web-svc", "/all", "mine hunter2 production-backend hunter2")
	s.answers(placed, "checkout-plain-svc", "/", "production-frontend hunter2")

	t.Run("each component has the verbs of its pod", func(t *testing.T) { s.verbs(t, group) })
	t.Run("a change of the workload changes no copy", func(t *testing.T) {
		patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","env":[{"name":"GREETING","value":"changed"}]}]}}}}`)
		if _, err := s.kube.AppsV1().Deployments(s.namespace).Patch(t.Context(), "frontend", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		group.mustPatch(`{"spec":{"displayName":"Checkout"}}`)
		group.waitReady()
		s.answers(placed, "checkout-plain-svc", "/", "production-frontend hunter2")
		if now := groupStatus(t, group); now.SandboxID != status.SandboxID || now.Components[1].Snapshot.Digest != status.Components[1].Snapshot.Digest {
			t.Errorf("it was %+v and is %+v", status, now)
		}
	})
	t.Run("what is wrong with one component is told of it", func(t *testing.T) {
		group.mustPatch(`{"spec":{"components":[
			{"name":"web","sourceRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"nothing","namespace":"storefront"}},
			{"name":"plain","sourceRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"frontend","namespace":"storefront"},"overrides":{"replicas":1}}]}}`)
		eventually(t, "it says which", func() error {
			c := meta.FindStatusCondition(groupStatus(t, group).Components[0].Conditions, sandbarv1alpha1.ComponentSourceResolved)
			if c == nil || c.Reason != "SourceNotFound" {
				return fmt.Errorf("it says %+v", c)
			}
			return nil
		})
		s.answers(placed, "checkout-plain-svc", "/", "production-frontend hunter2")
		group.mustPatch(`{"spec":{"components":[{"name":"plain","sourceRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"frontend","namespace":"storefront"},"overrides":{"replicas":1}}]}}`)
		group.waitReady()
		eventually(t, "the copy of the other is gone", func() error {
			_, err := s.kube.AppsV1().Deployments(placed).Get(t.Context(), "checkout-web-sbx", metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
	})
	t.Run("suspended it has no pods, and comes back", func(t *testing.T) {
		group.mustPatch(`{"spec":{"suspended":true}}`)
		eventually(t, "its pods are gone", func() error {
			pods, err := s.kube.CoreV1().Pods(placed).List(t.Context(), metav1.ListOptions{})
			if err == nil && len(pods.Items) > 0 {
				err = fmt.Errorf("%d pods are there", len(pods.Items))
			}
			return err
		})
		if log := callAs(t, tn.token).want(http.StatusOK, "GET", group.base()+"/components/plain/log", nil); log != "up production-frontend\n" {
			t.Errorf("what is kept of a component's log is %q", log)
		}
		group.mustPatch(`{"spec":{"suspended":false}}`)
		group.waitReady()
		s.answers(placed, "checkout-plain-svc", "/", "production-frontend hunter2")
	})
	group.delete()
	waitGone(t, group.id)
	s.answers(s.namespace, "backend", "/", "production-backend hunter2") // and the Baseline goes on
}
