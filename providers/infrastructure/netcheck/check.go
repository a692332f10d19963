// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package netcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/sandbar-dev/sandbar/pkg/netcheck"
)

// Reasons of the condition NetworkPolicyEnforced, the last three also of DNSReachable.
const (
	ReasonEnforced    = "Enforced"
	ReasonNotEnforced = "NotEnforced"
	ReasonNoNetwork   = "PodsDoNotReachEachOther"
	ReasonNoImage     = "NoImage"
	ReasonFailed      = "CheckFailed"
)

// Settings are what a check depends on.
type Settings struct {
	// Image is the runner's image, and RuntimeClass the runtime class of sandboxes; empty is the cluster's own.
	Image, RuntimeClass string
	// Egress is the egress policy of placements, for the pods that EgressPods selects. Nil means that it is not
	// known; then nothing is said of DNS.
	Egress *networkingv1.NetworkPolicySpec
}

// Result is what is known of network policies, or of DNS.
type Result struct {
	// Status is True, False or, when the check could not be made, Unknown. It is empty if nothing is
	// said.
	Status          metav1.ConditionStatus
	Reason, Message string
}

// Results are what one check finds out.
type Results struct {
	// Policies is whether network policies are enforced.
	Policies Result
	// DNS is whether a pod under the egress policy of placements resolves a name.
	DNS Result
}

// The pods, by their names, which are the value of the label that policies select by as well.
const (
	podOpen     = "open"     // anybody may reach it
	podShut     = "shut"     // nobody may
	podFree     = "free"     // may reach anybody
	podConfined = "confined" // may reach nobody
	podDNS      = "dns"      // looks a name up under the egress policy of placements
	podFreeDNS  = "dns-free" // does so under no policy

	labelPod = "sandbar.dev/netcheck"
)

const (
	// checkTimeout bounds one check: two starts of pods and what they take.
	checkTimeout = 3 * time.Minute
	// cleanTimeout bounds the deletion of the pods, which must not depend on the check's context.
	cleanTimeout = time.Minute
	// podSeconds ends a pod that nobody is left to delete.
	podSeconds = 300
	// wrongRunner is what to do about pods that end as they cannot.
	wrongRunner = "spec.images.runner of the InfrastructureProvider must be the runner of this version"
)

// check finds out whether policies hold, and names resolve under them.
func check(ctx context.Context, client kubernetes.Interface, namespace string, settings Settings) Results {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := &checker{client: client, namespace: namespace, settings: settings}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		_ = c.clean(ctx) // what is left, the next check removes first
	}()
	return c.run(ctx)
}

// checker makes one check.
type checker struct {
	client kubernetes.Interface
	// namespace is where the pods are, and nothing else.
	namespace string
	settings  Settings
}

// run tries both. What keeps DNS from being tried says nothing of network policies.
func (c *checker) run(ctx context.Context) Results {
	open, shut, err := c.listen(ctx)
	if err != nil {
		return Results{Policies: failed(err), DNS: c.ofDNS(failedDNS(err))}
	}
	// Looking up takes as long as dialling, and runs beside it.
	dnsErr := c.beginDNS(ctx, open)
	policies, err := c.dial(ctx, open, shut)
	if err != nil {
		policies = failed(err)
	}
	var dns Result
	if dnsErr == nil {
		dns, dnsErr = c.endDNS(ctx, policies)
	}
	if dnsErr != nil {
		dns = failedDNS(dnsErr)
	}
	return Results{Policies: policies, DNS: c.ofDNS(dns)}
}

func failed(err error) Result {
	return Result{metav1.ConditionUnknown, ReasonFailed, "whether network policies hold could not be tried: " + err.Error() + "; it is tried again within ten minutes"}
}

// listen starts the pods that listen, and returns their addresses.
func (c *checker) listen(ctx context.Context) (open, shut string, err error) {
	if err := c.clean(ctx); err != nil {
		return "", "", err
	}
	listen := []string{"netcheck", "listen"}
	if err := errors.Join(c.start(ctx, podOpen, listen...), c.start(ctx, podShut, listen...)); err != nil {
		return "", "", err
	}
	pods, err := c.until(ctx, "pods that listen to be ready", func(pods map[string]*corev1.Pod) bool {
		return ready(pods[podOpen]) && ready(pods[podShut]) || ended(pods[podOpen]) != nil || ended(pods[podShut]) != nil
	})
	if err != nil {
		return "", "", err
	}
	for _, name := range []string{podOpen, podShut} {
		if end := ended(pods[name]); end != nil {
			return "", "", fmt.Errorf("a pod that listens ended (%s, exit code %d): %s", end.Reason, end.ExitCode, wrongRunner)
		}
	}
	return address(pods[podOpen]), address(pods[podShut]), nil
}

// dial tries what policies forbid.
func (c *checker) dial(ctx context.Context, open, shut string) (Result, error) {
	if err := errors.Join(c.start(ctx, podFree, "netcheck", "dial", open, shut), c.start(ctx, podConfined, "netcheck", "dial", netcheck.None, open)); err != nil {
		return Result{}, err
	}
	pods, err := c.until(ctx, "pods that dial to end", func(pods map[string]*corev1.Pod) bool {
		return ended(pods[podFree]) != nil && ended(pods[podConfined]) != nil
	})
	if err != nil {
		return Result{}, err
	}
	// One that has ended could not be reached either.
	if !ready(pods[podOpen]) || !ready(pods[podShut]) {
		return Result{}, errors.New("a pod that listens did not stay ready")
	}
	return judge(int(ended(pods[podFree]).ExitCode), int(ended(pods[podConfined]).ExitCode))
}

// judge says what the exit codes of the two pods that dial mean together.
func judge(free, confined int) (Result, error) {
	for _, code := range []int{free, confined} {
		if code != netcheck.Blocked && code != netcheck.Reached && code != netcheck.NoNetwork {
			return Result{}, fmt.Errorf("a pod that dials ended with exit code %d: %s", code, wrongRunner)
		}
	}
	var open []string
	if free == netcheck.Reached {
		open = append(open, "incoming")
	}
	if confined == netcheck.Reached {
		open = append(open, "outgoing")
	}
	switch {
	case free == netcheck.NoNetwork:
		return Result{metav1.ConditionUnknown, ReasonNoNetwork, "pods that no policy is about do not reach each other, so nothing can be said of policies: look at the runtime cluster's network"}, nil
	case len(open) > 0:
		return Result{metav1.ConditionFalse, ReasonNotEnforced, fmt.Sprintf("the runtime cluster does not enforce network policies for %s connections: sandboxes of different tenants can reach each other. "+
			"Install a network plugin that enforces NetworkPolicy; this is tried again within ten minutes", strings.Join(open, " and "))}, nil
	}
	return Result{metav1.ConditionTrue, ReasonEnforced, "pods are kept apart as network policies say, for incoming and outgoing connections"}, nil
}

func (c *checker) pods() podInterface {
	return c.client.CoreV1().Pods(c.namespace)
}

func (c *checker) start(ctx context.Context, name string, args ...string) error {
	_, err := c.pods().Create(ctx, c.build(name, args), metav1.CreateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return fmt.Errorf("starting a pod (after an upgrade, run sandbar-provider init again): %w", err)
	}
	if err != nil {
		return fmt.Errorf("starting a pod: %w", err)
	}
	return nil
}

// clean deletes what is there and waits until it is gone.
func (c *checker) clean(ctx context.Context) error {
	now := int64(0)
	if err := c.pods().DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting the pods of an earlier check (after an upgrade, run sandbar-provider init again): %w", err)
	}
	_, err := c.until(ctx, "pods of an earlier check to be gone", func(pods map[string]*corev1.Pod) bool { return len(pods) == 0 })
	return err
}

// until watches the pods until they are as wanted. The error says what keeps them.
func (c *checker) until(ctx context.Context, what string, wanted func(map[string]*corev1.Pod) bool) (map[string]*corev1.Pod, error) {
	pods := map[string]*corev1.Pod{}
	list := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (object, error) { return c.pods().List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.pods().Watch(ctx, o)
		},
	}, c.client)
	_, err := watchtools.UntilWithSync(ctx, list, &corev1.Pod{},
		func(store cache.Store) (bool, error) {
			for _, obj := range store.List() {
				if pod, ok := obj.(*corev1.Pod); ok {
					pods[pod.Name] = pod
				}
			}
			return wanted(pods), nil
		},
		func(event watch.Event) (bool, error) {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
				delete(pods, pod.Name)
			} else if ok {
				pods[pod.Name] = pod
			}
			return wanted(pods), nil
		})
	if err != nil {
		return nil, fmt.Errorf("waiting for %s: %w%s", what, err, obstacle(pods))
	}
	return pods, nil
}

// obstacle says why a pod does not start, if one says so.
func obstacle(pods map[string]*corev1.Pod) string {
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				return ": " + condition.Message
			}
		}
		for _, status := range pod.Status.ContainerStatuses {
			if waiting := status.State.Waiting; waiting != nil {
				return ": " + waiting.Reason + ": " + waiting.Message
			}
		}
	}
	return ""
}

func ready(pod *corev1.Pod) bool {
	if pod == nil || pod.Status.PodIP == "" {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func ended(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
		return nil
	}
	return pod.Status.ContainerStatuses[0].State.Terminated
}

func address(pod *corev1.Pod) string {
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(netcheck.Port))
}
