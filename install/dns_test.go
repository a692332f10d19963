// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
)

func dnsServiceOf(namespace, name string, selector map[string]string, target intstr.IntOrString) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{
			{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: target},
			{Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53, TargetPort: target},
			{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9153, TargetPort: intstr.FromInt32(9153)},
		}},
	}
}

func endpointsOf(service *corev1.Service, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace, Name: service.Name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
	}}
	for _, name := range []string{"dns", "dns-tcp"} {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(name), Port: new(port)})
	}
	slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new("metrics"), Port: new(int32(9153))})
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

func nodeLocal(hostNetwork bool, args ...string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: nodeLocalDNS.Namespace, Name: nodeLocalDNS.Name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "node-local-dns"}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "other"}, {Name: "node-cache", Args: args}},
			}},
		},
	}
}

func TestTheDNSOfAClusterIsFound(t *testing.T) {
	kubeDNS := map[string]string{"k8s-app": "kube-dns"}
	named, at := intstr.FromString("dns"), intstr.FromInt32
	kubeadm := dnsServiceOf("kube-system", "kube-dns", kubeDNS, at(53))
	openshift := dnsServiceOf("openshift-dns", "dns-default", map[string]string{"dns.operator.openshift.io/daemonset-dns": "default"}, named)
	openshift.Labels = nil
	stack := dnsServiceOf("kube-system", "kube-dns", kubeDNS, named)
	rke2 := dnsServiceOf("kube-system", "rke2-coredns-rke2-coredns", map[string]string{"app.kubernetes.io/name": "rke2-coredns"}, named)
	outside := dnsServiceOf("kube-system", "kube-dns", nil, at(53))
	upstream := dnsServiceOf("kube-system", "kube-dns-upstream", kubeDNS, at(53))
	unusual := dnsServiceOf("kube-system", "kube-dns", kubeDNS, at(5353))
	many := map[string]string{}
	for key := range strings.SplitSeq("abcdefghi", "") {
		many[key] = "x"
	}
	type dns = sandbarv1alpha1.EgressDNS
	for name, tc := range map[string]struct {
		has  []client.Object
		want *dns
		said string
	}{
		"kubeadm": {
			[]client.Object{kubeadm, endpointsOf(kubeadm, 53, "10.244.0.2")},
			&dns{Namespace: "kube-system", PodLabels: kubeDNS, Ports: []int32{53}}, "Service kube-system/kube-dns",
		},
		"k3s, whose port has a name": {
			[]client.Object{stack, endpointsOf(stack, 53, "10.42.0.2")},
			&dns{Namespace: "kube-system", PodLabels: kubeDNS, Ports: []int32{53}}, "Service kube-system/kube-dns",
		},
		"GKE's kube-dns with a cache on each node": {
			[]client.Object{kubeadm, upstream, endpointsOf(kubeadm, 53, "10.4.0.2"), nodeLocal(true, "-localip", "169.254.20.10,10.8.0.10", "-conf", "/etc/Corefile")},
			&dns{Namespace: "kube-system", PodLabels: kubeDNS, Ports: []int32{53}, Addresses: []string{"169.254.20.10", "10.8.0.10"}},
			"Service kube-system/kube-dns, DaemonSet kube-system/node-local-dns",
		},
		"OpenShift": {
			[]client.Object{openshift, endpointsOf(openshift, 5353, "10.128.0.4")},
			&dns{Namespace: "openshift-dns", PodLabels: map[string]string{"dns.operator.openshift.io/daemonset-dns": "default"}, Ports: []int32{5353}},
			"Service openshift-dns/dns-default",
		},
		"another port in the pods": {
			[]client.Object{stack, endpointsOf(stack, 5353, "10.244.0.2")},
			&dns{Namespace: "kube-system", PodLabels: kubeDNS, Ports: []int32{5353}}, "Service kube-system/kube-dns",
		},
		"RKE2, by its label": {
			[]client.Object{upstreamless(upstream), rke2, endpointsOf(rke2, 53, "10.42.0.3")},
			&dns{Namespace: "kube-system", PodLabels: map[string]string{"app.kubernetes.io/name": "rke2-coredns"}, Ports: []int32{53}},
			"Service kube-system/rke2-coredns-rke2-coredns",
		},
		"a Service whose pods are not there yet": {
			[]client.Object{unusual}, &dns{Namespace: "kube-system", PodLabels: kubeDNS, Ports: []int32{5353}}, "Service kube-system/kube-dns",
		},
		"and whose port has a name": {
			[]client.Object{stack}, &dns{Namespace: "kube-system", PodLabels: kubeDNS}, "Service kube-system/kube-dns",
		},
		"servers that are not pods": {
			[]client.Object{outside, endpointsOf(outside, 53, "192.0.2.7", "192.0.2.7", "192.0.2.8")},
			&dns{Ports: []int32{53}, Addresses: []string{"192.0.2.7", "192.0.2.8"}}, "Service kube-system/kube-dns",
		},
		"a cache alone": {
			[]client.Object{nodeLocal(true, "--localip=169.254.20.10, __PILLAR__DNS__SERVER__ ,fd00::a")},
			&dns{Addresses: []string{"169.254.20.10", "fd00::a"}}, "DaemonSet kube-system/node-local-dns",
		},
		"a cache to which the network plugin redirects": {
			[]client.Object{kubeadm, endpointsOf(kubeadm, 53, "10.244.0.2"), nodeLocal(false, "-localip", "169.254.20.10")},
			&dns{Namespace: "kube-system", PodLabels: map[string]string{"k8s-app": "node-local-dns"}, Ports: []int32{53}},
			"Service kube-system/kube-dns, DaemonSet kube-system/node-local-dns",
		},
		"a cache that says no address":     {[]client.Object{nodeLocal(true, "-conf", "-localip")}, nil, ""},
		"nothing":                          {nil, nil, ""},
		"more labels than can be set":      {[]client.Object{dnsServiceOf("kube-system", "kube-dns", many, at(53))}, nil, ""},
		"other Services of the namespaces": {[]client.Object{dnsServiceOf("default", "kube-dns", kubeDNS, at(53))}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookForDNS(t.Context(), fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(tc.has...).Build())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.dns); diff != "" || got.said != tc.said {
				t.Errorf("said %q, want %q (-want +got):\n%s", got.said, tc.said, diff)
			}
		})
	}
}

// upstreamless is a Service of the label without pods, which is not that of the cluster's DNS.
func upstreamless(service *corev1.Service) *corev1.Service {
	without := service.DeepCopy()
	without.Name, without.Spec.Selector = "a-headless-one", nil
	return without
}

// An error must not be taken for a cluster without DNS: the default would take the place of what was found before.
func TestAnErrorIsNoClusterWithoutDNS(t *testing.T) {
	broken := errors.New("the API server is away")
	for kind, reading := range map[string]interceptor.Funcs{
		"a Service": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*corev1.Service); ok {
				return broken
			}
			return c.Get(ctx, key, obj, opts...)
		}},
		"a DaemonSet": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*appsv1.DaemonSet); ok {
				return broken
			}
			return c.Get(ctx, key, obj, opts...)
		}},
		"lists": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }},
	} {
		reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithInterceptorFuncs(reading).Build()
		if got, err := lookForDNS(t.Context(), reader); !errors.Is(err, broken) {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
}

// infrastructure is an InfrastructureProvider with a DNS and the managers of its fields.
func infrastructure(dns map[string]any, owners map[string]string) *unstructured.Unstructured {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	if dns != nil {
		live.Object["spec"] = map[string]any{"isolation": map[string]any{"egress": map[string]any{"dns": dns}}}
	}
	var entries []metav1.ManagedFieldsEntry
	for manager, fields := range owners {
		name, operation, _ := strings.Cut(manager, " ")
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: name, Operation: metav1.ManagedFieldsOperationType(operation), FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:isolation":{"f:egress":{"f:dns":` + fields + `}}}}`)},
		})
	}
	live.SetManagedFields(entries)
	return live
}

// ofStatus makes the managers those of the status.
func ofStatus(live *unstructured.Unstructured) *unstructured.Unstructured {
	entries := live.GetManagedFields()
	for i := range entries {
		entries[i].Subresource = "status"
	}
	live.SetManagedFields(entries)
	return live
}

func TestInitSetsTheDNSThatItFoundAndLeavesAnOperatorsAsItIs(t *testing.T) {
	type dns = sandbarv1alpha1.EgressDNS
	found := foundDNS{&dns{Namespace: "openshift-dns", PodLabels: map[string]string{"a": "b"}, Ports: []int32{5353}}, "Service openshift-dns/dns-default"}
	before := map[string]any{"namespace": "kube-system", "podLabels": map[string]any{"c": "d"}, "ports": []any{int64(53)}}
	const all = `{".":{},"f:namespace":{},"f:podLabels":{},"f:ports":{}}`
	for name, tc := range map[string]struct {
		live  *unstructured.Unstructured
		found foundDNS
		want  *dns
		says  []string
	}{
		"a provider that is new":             {infrastructure(nil, nil), found, found.dns, []string{"is set to what was found on the runtime cluster by Service openshift-dns/dns-default: the pods a=b of openshift-dns at port 5353"}},
		"one without a DNS":                  {infrastructure(nil, map[string]string{"kubectl-edit Update": `{}`}), found, found.dns, nil},
		"what init has set follows":          {infrastructure(before, map[string]string{"sandbar-init Apply": all}), found, found.dns, nil},
		"also to nothing, with the default":  {infrastructure(before, map[string]string{"sandbar-init Apply": all}), foundDNS{}, nil, []string{"has its default, the pods k8s-app=kube-dns of kube-system at port 53", "no DNS that init knows was found", "set that field"}},
		"what an operator has set stays":     {infrastructure(before, map[string]string{"kubectl-edit Update": all}), found, nil, []string{"stays as kubectl-edit has set it: the pods c=d of kube-system at port 53", "found on the runtime cluster by Service openshift-dns/dns-default"}},
		"also if nothing was found":          {infrastructure(before, map[string]string{"kubectl-edit Update": all}), foundDNS{}, nil, []string{"stays as kubectl-edit has set it", "no DNS that init knows was found"}},
		"a part of it stays with the rest":   {infrastructure(before, map[string]string{"kubectl-edit Update": `{"f:ports":{}}`, "sandbar-init Apply": `{"f:namespace":{},"f:podLabels":{}}`}), found, &dns{Namespace: "kube-system", PodLabels: map[string]string{"c": "d"}}, []string{"stays as kubectl-edit has set it"}},
		"init's own name does not edit":      {infrastructure(before, map[string]string{"sandbar-init Update": all}), found, nil, []string{"stays as sandbar-init has set it"}},
		"another field's owner has no say":   {infrastructure(nil, map[string]string{"kubectl-edit Update": `{"k:x":{}}`}), found, found.dns, nil},
		"a status's owner has no say either": {ofStatus(infrastructure(nil, map[string]string{"kubectl-edit Update": all})), found, found.dns, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, said, err := settle(tc.live, tc.found)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			for _, says := range tc.says {
				if !strings.Contains(said, says) {
					t.Errorf("%q does not say %q", said, says)
				}
			}
		})
	}
	if _, err := fieldsOfDNS(metav1.ManagedFieldsEntry{FieldsV1: &metav1.FieldsV1{Raw: []byte("{")}}); err == nil {
		t.Error("managed fields that cannot be read are taken for nobody's")
	}
}

func TestTheDNSThatInitIsGivenIsApplied(t *testing.T) {
	given := &sandbarv1alpha1.EgressDNS{Addresses: []string{"192.0.2.53"}}
	a := &applier{absent: true, opts: Options{Provider: sandbarv1alpha1.InfrastructureProviderSpec{
		Isolation: sandbarv1alpha1.Isolation{Egress: sandbarv1alpha1.Egress{DNS: given}},
	}}}
	got, said, err := settleDNS(t.Context(), a, foundDNS{})
	if err != nil || got != given || !strings.Contains(said, "192.0.2.53") {
		t.Errorf("%+v, %q, %v", got, said, err)
	}
}
