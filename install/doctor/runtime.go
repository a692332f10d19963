// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	krov1alpha1 "github.com/kubernetes-sigs/kro/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/placement"
	"github.com/sandbar-dev/sandbar/providers/infrastructure/platform"
)

// checkRuntime looks at the runtime cluster's API server, and at kro for the check of that name.
func (e *examination) checkRuntime(ctx context.Context) []Finding {
	inspector, err := platform.NewInspector(e.Runtime)
	if err != nil {
		return one(failure("", "%v", err))
	}
	found, err := inspector.Inspect(ctx)
	e.kroVersion = found.KroVersion
	switch {
	case errors.Is(err, platform.ErrUnreachable):
		return one(failure("check the network, the address, the certificate authority and the credential of --runtime-kubeconfig", "%v", err))
	case errors.Is(err, platform.ErrKubernetesTooOld):
		return one(failure("upgrade it", "%v", err))
	}
	e.kro = err
	var nodes corev1.NodeList
	if err := e.runtime.List(ctx, &nodes); err != nil {
		return one(failure("use the kubeconfig of an administrator", "its nodes cannot be listed: %v", err))
	}
	ready := 0
	for i := range nodes.Items {
		if usable(&nodes.Items[i]) {
			ready++
		}
	}
	if ready == 0 {
		return one(failure("kubectl get nodes, on the runtime cluster", "Kubernetes %s answers, and none of its %d nodes can take a pod", found.KubernetesVersion, len(nodes.Items)))
	}
	return one(passed("Kubernetes %s, %d of %d nodes can take pods", found.KubernetesVersion, ready, len(nodes.Items)))
}

// usable reports whether the scheduler may choose a node.
func usable(node *corev1.Node) bool {
	return !node.Spec.Unschedulable && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// checkKro looks at kro's version, its graphs, and the limits that it was started with.
func (e *examination) checkKro(ctx context.Context) []Finding {
	if e.kro != nil {
		return one(failure("", "%v", e.kro))
	}
	var graphs krov1alpha1.ResourceGraphDefinitionList
	if err := e.runtime.List(ctx, &graphs, client.MatchingLabels{placement.LabelManagedBy: placement.ManagedBy}); err != nil {
		return one(failure("", "its graphs cannot be listed: %v", err))
	}
	var found []Finding
	for _, g := range graphs.Items {
		if g.Status.State != krov1alpha1.ResourceGraphDefinitionStateActive {
			found = append(found, failure("kubectl describe resourcegraphdefinition "+g.Name+", on the runtime cluster", "the graph %s is not active", g.Name))
		}
	}
	limits, err := e.kroLimits(ctx)
	if err != nil {
		return append(found, warning("", "its Deployment cannot be read: %v", err))
	}
	found = append(found, limits...)
	if len(found) > 0 {
		return found
	}
	return one(passed("kro %s, %d graphs are active", e.kroVersion, len(graphs.Items)))
}

// checkInstalled asks init what it would change: a role, a policy, a kind or a key that somebody changed or deleted, or
// that another version of Sandbar installed.
func (e *examination) checkInstalled(ctx context.Context) []Finding {
	differ, all, err := e.differences(ctx)
	if err == nil && len(differ) > 0 {
		// What the controllers write between init's read and its dry run looks like a difference. One that is real is
		// there again.
		var again []string
		again, all, err = e.differences(ctx)
		differ = slices.DeleteFunc(differ, func(d string) bool { return !slices.Contains(again, d) })
	}
	switch {
	case errors.Is(err, platform.ErrKroMissing), errors.Is(err, platform.ErrKroTooOld):
		return one(skipped("needs kro"))
	case err != nil:
		return one(failure("run sandbar-provider init --dry-run: it says the same, and where", "%v", err))
	case len(differ) > 0:
		return one(failure(runInit+"; if you run several versions, use the newest", "%d of %d objects are not as this version of sandbar-provider installs them: %s",
			len(differ), all, someOf(differ)))
	}
	return one(passed("kinds, roles, policies and keys are as this version installs them (%d objects)", all))
}

// differences are what init would do, and of how many objects.
func (e *examination) differences(ctx context.Context) (differ []string, all int, err error) {
	report, err := install.Init(ctx, install.Options{
		KCP: e.KCP, Runtime: e.Runtime, Workspace: e.Workspace, ExportName: e.ExportName, RuntimeName: e.RuntimeName,
		Provider: e.provider.Spec, KroServiceAccount: e.KroServiceAccount, DryRun: true, Timeout: e.Timeout,
	})
	for _, entry := range report.Entries {
		if entry.Action != install.Unchanged {
			differ = append(differ, fmt.Sprintf("%s: %s %s would be %s", entry.Where, entry.Kind, entry.Name, entry.Action))
		}
	}
	return differ, len(report.Entries), err
}

// defaultClass is the annotation of the StorageClass that a volume without one gets
// (https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass).
const defaultClass = "storageclass.kubernetes.io/is-default-class"

func (e *examination) checkStorage(ctx context.Context) []Finding {
	var list storagev1.StorageClassList
	if err := e.runtime.List(ctx, &list); err != nil {
		return one(failure("", "the StorageClasses cannot be listed: %v", err))
	}
	var defaults []string
	for _, class := range list.Items {
		if class.Annotations[defaultClass] == "true" {
			defaults = append(defaults, class.Name)
		}
	}
	if len(defaults) == 0 {
		return one(warning("kubectl annotate storageclass NAME "+defaultClass+"=true, on the runtime cluster",
			"none of the %d StorageClasses is the default: sandboxes with volumes wait for ever", len(list.Items)))
	}
	return one(passed("volumes are of the StorageClass %s", strings.Join(defaults, ", ")))
}

// pulls are the reasons for which a container waits for an image (https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff).
var pulls = []string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable"}

// checkImages looks for pods of the provider's placements that wait for an image.
func (e *examination) checkImages(ctx context.Context) []Finding {
	if e.provider.Spec.Images["runner"] == "" {
		return one(failure("run sandbar-provider init with --image runner=REFERENCE", "there is no image runner: no Template with Sandbar's runner works"))
	}
	var pods corev1.PodList
	if err := e.runtime.List(ctx, &pods, client.HasLabels{placement.LabelInstanceUID}); err != nil {
		return one(failure("", "the pods of placements cannot be listed: %v", err))
	}
	waiting := map[string]int{}
	for i := range pods.Items {
		for _, image := range waitingImages(&pods.Items[i]) {
			waiting[image]++
		}
	}
	if len(waiting) == 0 {
		return one(passed("none of %d pods waits for an image", len(pods.Items)))
	}
	var found []Finding
	ours := slices.Collect(maps.Values(e.provider.Spec.Images))
	for _, image := range slices.Sorted(maps.Keys(waiting)) {
		if slices.Contains(ours, image) {
			found = append(found, failure("see whether the nodes may pull it, or name another one: kubectl edit infrastructureprovider, in the provider workspace",
				"%d pods wait for %s, an image of the InfrastructureProvider", waiting[image], image))
			continue
		}
		found = append(found, warning("a tenant chose it, and its Sandbox says so", "%d pods wait for the image %s", waiting[image], image))
	}
	return found
}

// waitingImages are the images that a pod's containers wait for, each once.
func waitingImages(pod *corev1.Pod) []string {
	var images []string
	for _, status := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if status.State.Waiting != nil && slices.Contains(pulls, status.State.Waiting.Reason) {
			images = append(images, status.Image)
		}
	}
	slices.Sort(images)
	return slices.Compact(images)
}
