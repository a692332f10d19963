// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sandbar-dev/sandbar/pkg/netcheck"
)

var infrastructureProviders = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "infrastructureproviders"}

// dials has a sandbox dial an address and reports whether it got a connection.
func (i *instance) dials(t *testing.T, address string) bool {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`const s = require('net').connect({host: %q, port: %s, timeout: 2000});
		s.on('connect', () => { console.log('reached'); process.exit() });
		for (const e of ['error', 'timeout']) s.on(e, () => { console.log('blocked'); process.exit() })`, host, port)
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := i.remote(ctx, t, i.tn.token, "exec", remotecommand.StreamOptions{Stdout: &out}, "node", "-e", script); err != nil {
		t.Fatalf("dialling %s: %v", address, err)
	}
	return strings.TrimSpace(out.String()) == "reached"
}

// freePodDials has a pod that no policy is about dial an address: what it cannot reach either proves
// nothing of policies.
func freePodDials(t *testing.T, address string) bool {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "free-", Namespace: "default"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: new(int64(patience().Seconds())), AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{
				Name: "dial", Image: "localhost/sandbar/runner:dev", ImagePullPolicy: corev1.PullIfNotPresent,
				Command: []string{"/sandbar-runner", "netcheck", "dial", address, "192.0.2.1:9"},
			}},
		},
	}
	made, err := kube.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = kube.CoreV1().Pods("default").Delete(context.Background(), made.Name, metav1.DeleteOptions{})
	}()
	code := -1
	eventually(t, "a free pod has dialled "+address, func() error {
		got, err := kube.CoreV1().Pods("default").Get(t.Context(), made.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(got.Status.ContainerStatuses) == 0 || got.Status.ContainerStatuses[0].State.Terminated == nil {
			return errors.New("it runs")
		}
		code = int(got.Status.ContainerStatuses[0].State.Terminated.ExitCode)
		return nil
	})
	return code == netcheck.Blocked // that is: the address was reached, and the one that nobody has was not
}

// TestSandboxesAreKeptApart: what a sandbox reaches on the network, tried with the policies enforced.
func TestSandboxesAreKeptApart(t *testing.T) {
	calm(t)
	const server = `
template:
  podTemplate:
    spec:
      containers:
      - {name: main, image: ` + toolchain + `, command: [node, -e, "` + twoServers + `"]}
`
	mine, other := newTenant(t, "alice"), newTenant(t, "bob")
	mine.waitServed(sandboxes)
	other.waitServed(sandboxes)
	here, beside, foreign := mine.box("here", server), mine.box("beside", server), other.box("foreign", server)
	for _, box := range []*instance{here, beside, foreign} {
		box.waitReady()
	}
	address := func(i *instance, port string) string { return net.JoinHostPort(i.pod().Status.PodIP, port) }

	// A server of the host, outside of the runtime cluster, at the end of the node's link.
	node := here.pod().Status.HostIP
	host := strings.TrimSuffix(node, ".2") + ".1"
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = http.Serve(listener, http.NotFoundHandler()) }()
	t.Cleanup(func() { listener.Close() })

	kube := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	api, err := kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for what, address := range map[string]string{
		"another tenant's sandbox":              address(foreign, "8080"),
		"another sandbox of the same workspace": address(beside, "8080"),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // what is blocked takes its time
			// Its own policy lets the provider in, which runs beside the cluster, and no pod.
			conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatalf("%s cannot be reached by the provider: this proves nothing", address)
			}
			conn.Close()
			if here.dials(t, address) {
				t.Errorf("%s is reached", address)
			}
			if freePodDials(t, address) {
				t.Errorf("%s is reached by a pod without policies", address)
			}
		})
	}
	for what, address := range map[string]string{
		"the runtime cluster's API server":     net.JoinHostPort(api.Spec.ClusterIP, "443"),
		"the API server at its node's address": net.JoinHostPort(node, "6443"),
		"the kubelet":                          net.JoinHostPort(node, "10250"),
		"the network of the provider":          listener.Addr().String(),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if !freePodDials(t, address) {
				t.Fatalf("%s cannot be reached by a pod without policies: this proves nothing", address)
			}
			if here.dials(t, address) {
				t.Errorf("%s is reached", address)
			}
		})
	}
	t.Run("the metadata service of a cloud", func(t *testing.T) {
		if here.dials(t, "169.254.169.254:80") {
			t.Error("it is reached")
		}
	})
	t.Run("itself", func(t *testing.T) {
		if !here.dials(t, address(here, "8080")) {
			t.Error("a sandbox does not reach its own port")
		}
	})
	t.Run("the resolver", func(t *testing.T) {
		var out bytes.Buffer
		err := here.remote(t.Context(), t, mine.token, "exec", remotecommand.StreamOptions{Stdout: &out},
			"node", "-e", `require('dns').lookup('kubernetes.default.svc.cluster.local', (e, a) => console.log(e ? e.code : a))`)
		if got := strings.TrimSpace(out.String()); err != nil || got != api.Spec.ClusterIP {
			t.Errorf("a name resolves to %q (%v), want %s", got, err, api.Spec.ClusterIP)
		}
	})
	t.Run("the data plane reaches it", func(t *testing.T) {
		if got := callAs(t, mine.token).want(http.StatusOK, http.MethodGet, here.base()+"/ports/8080/proxy/x", nil); got != "8080 /x" {
			t.Errorf("it says %q", got)
		}
	})
	t.Run("the operator is told", func(t *testing.T) {
		infra := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(infrastructureProviders)
		var found *unstructured.Unstructured
		eventually(t, "NetworkPolicyEnforced and DNSReachable are True", func() (err error) {
			if found, err = infra.Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
				return err
			}
			return errors.Join(conditionError(found, "NetworkPolicyEnforced", metav1.ConditionTrue), conditionError(found, "DNSReachable", metav1.ConditionTrue))
		})
		metrics, err := world.Metrics(t.Context())
		if err != nil || !strings.Contains(metrics, "sandbar_network_policy_enforced 1\n") {
			t.Errorf("the metric does not say so (%v)", err)
		}
	})
}
