// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Command netpol enforces NetworkPolicies on the node of the local stack, with the policy
// controller of kube-router and nothing else of it: it writes iptables rules and ipsets in the
// network namespace that it runs in.
//
// It knows IPv4 only. kube-router would hand IPv6 ranges to iptables for IPv4, which refuses the
// whole rule set, so ranges of the other family are left out of what it reads: the node has no
// IPv6 addresses.
package main

import (
	"context"
	"flag"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cloudnativelabs/kube-router/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/pkg/options"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// fullSync is how often all rules are written anew, whether or not something has changed.
const fullSync = time.Minute

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	node := flag.String("node", "", "name of the node")
	services := flag.String("services", "", "range of Service addresses")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *kubeconfig, *node, *services); err != nil {
		klog.Fatal(err)
	}
}

func run(ctx context.Context, kubeconfig, node, services string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := waitForNode(ctx, client, node); err != nil {
		return err
	}
	settings := options.NewKubeRouterConfig()
	settings.ClusterIPCIDR, settings.HostnameOverride = services, node
	settings.IPTablesSyncPeriod, settings.NodePortRange = fullSync, "30000-32767"

	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods().Informer(), factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	if err := policies.SetTransform(withoutIPv6); err != nil {
		return err
	}
	controller, err := netpol.NewNetworkPolicyController(client, settings, pods, policies, namespaces, &sync.Mutex{})
	if err != nil {
		return err
	}
	pods.AddEventHandler(controller.PodEventHandler)
	namespaces.AddEventHandler(controller.NamespaceEventHandler)
	policies.AddEventHandler(controller.NetworkPolicyEventHandler)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())

	beats := make(chan *healthcheck.ControllerHeartbeat, 1)
	go func() {
		for range beats { // nobody looks
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(beats, ctx.Done(), &running)
	running.Wait()
	return nil
}

// waitForNode waits until the node is registered and may be read, which at the first start of a
// cluster is a moment after its API server serves.
func waitForNode(ctx context.Context, client kubernetes.Interface, node string) error {
	return wait.PollImmediateUntilWithContext(ctx, 200*time.Millisecond, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil, nil
	})
}

// withoutIPv6 leaves IPv6 ranges out of a policy. A rule that has nothing else would allow
// everything, so it goes as a whole.
func withoutIPv6(obj interface{}) (interface{}, error) {
	policy, ok := obj.(*networkingv1.NetworkPolicy)
	if !ok {
		return obj, nil
	}
	var ingress []networkingv1.NetworkPolicyIngressRule
	for _, rule := range policy.Spec.Ingress {
		if len(rule.From) > 0 {
			if rule.From = ofIPv4(rule.From); len(rule.From) == 0 {
				continue
			}
		}
		ingress = append(ingress, rule)
	}
	var egress []networkingv1.NetworkPolicyEgressRule
	for _, rule := range policy.Spec.Egress {
		if len(rule.To) > 0 {
			if rule.To = ofIPv4(rule.To); len(rule.To) == 0 {
				continue
			}
		}
		egress = append(egress, rule)
	}
	policy.Spec.Ingress, policy.Spec.Egress = ingress, egress
	return policy, nil
}

func ofIPv4(peers []networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer {
	var kept []networkingv1.NetworkPolicyPeer
	for _, peer := range peers {
		if peer.IPBlock == nil || !strings.Contains(peer.IPBlock.CIDR, ":") {
			kept = append(kept, peer)
		}
	}
	return kept
}
