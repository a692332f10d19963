// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/remotecommand"
)

// looksUp has a sandbox ask its DNS server for an address of a name, once. It returns the address, or the
// resolver's error.
func (i *instance) looksUp(t *testing.T, name string) string {
	t.Helper()
	script := fmt.Sprintf(`new (require('dns').Resolver)({timeout: 2000, tries: 1}).resolve4(%q, (e, a) => console.log(e ? e.code : a[0]))`, name)
	var out bytes.Buffer
	if err := i.remote(t.Context(), t, i.tn.token, "exec", remotecommand.StreamOptions{Stdout: &out}, "node", "-e", script); err != nil {
		t.Fatalf("looking up %s: %v", name, err)
	}
	return strings.TrimSpace(out.String())
}

// TestDNSIsWhereTheOperatorSays: the stack's DNS listens at another port than 53 in its pod, as OpenShift's does,
// and init finds that. A setting that leads elsewhere is reported with its remedy, and reaches
// sandboxes that run, as its correction does.
func TestDNSIsWhereTheOperatorSays(t *testing.T) {
	breaks(t) // no sandbox resolves a name meanwhile
	infra := dynamic.NewForConfigOrDie(world.Stack.KCPAdmin(world.Workspace)).Resource(infrastructureProviders)
	provider, err := infra.Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, _, _ := unstructured.NestedMap(provider.Object, "spec", "isolation", "egress", "dns")
	want := map[string]any{"namespace": "kube-system", "podLabels": map[string]any{"k8s-app": "kube-dns"}, "ports": []any{int64(5353)}}
	if !reflect.DeepEqual(found, want) {
		t.Fatalf("init has set %v, want %v", found, want)
	}
	set := func(ports any) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"isolation": map[string]any{"egress": map[string]any{"dns": map[string]any{"ports": ports}}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := infra.Patch(t.Context(), "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	defer set(found["ports"])
	told := func(status metav1.ConditionStatus, metric string, words ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("DNSReachable is %s with %q", status, words), func() error {
			got, err := infra.Get(t.Context(), "default", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := conditionError(got, "DNSReachable", status); err != nil {
				return err
			}
			said := fmt.Sprint(condition(got, "DNSReachable"))
			for _, word := range words {
				if !strings.Contains(said, word) {
					return fmt.Errorf("it says %s", said)
				}
			}
			metrics, err := world.Metrics(t.Context())
			if err == nil && !strings.Contains(metrics, "\nsandbar_dns_reachable "+metric+"\n") {
				err = fmt.Errorf("the metric is not %s", metric)
			}
			return err
		})
	}
	tn := newTenant(t, "alice")
	tn.waitServed(sandboxes)
	box := tn.box("asks", `
template:
  podTemplate:
    spec:
      containers:
      - {name: main, image: `+toolchain+`, command: [sleep, infinity]}
`)
	box.waitReady()
	resolves := func(wanted bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("the sandbox resolves names: %t", wanted), func() error {
			if got := box.looksUp(t, "kubernetes.default.svc.cluster.local"); strings.Contains(got, ".") != wanted {
				return fmt.Errorf("it has %q", got)
			}
			return nil
		})
	}
	resolves(true)
	told(metav1.ConditionTrue, "1", "NamesResolve")

	set([]int32{53}) // that of the Service
	resolves(false)
	told(metav1.ConditionFalse, "0", "NotAllowed", "no answer", "k8s-app=kube-dns of namespace kube-system at port 53", "spec.isolation.egress.dns")

	set(found["ports"])
	resolves(true)
	told(metav1.ConditionTrue, "1", "NamesResolve")
}
