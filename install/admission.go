// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/contract"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// kroPolicy is the name of the admission policy that bounds kro, and of its binding.
const kroPolicy = "sandbar-kro"

// podSecurityLevels are the pod security levels, the strictest first.
var podSecurityLevels = []string{"restricted", "baseline", "privileged"}

// admissionValues are what the admission policies leave open.
func admissionValues(opts Options, level string) map[string]string {
	allowed := podSecurityLevels[:slices.Index(podSecurityLevels, level)+1]
	levels, err := json.Marshal(allowed) // a CEL list of strings is written like that
	if err != nil {
		panic(err) // strings are always written
	}
	proxies := []string{}
	if opts.proxyImage != "" {
		proxies = append(proxies, opts.proxyImage)
	}
	images, err := json.Marshal(proxies)
	if err != nil {
		panic(err) // strings are always written
	}
	namespace, name, _ := strings.Cut(opts.KroServiceAccount, "/")
	return map[string]string{
		"PodSecurityLevels": string(levels), "ProxyImages": string(images),
		"TokenSeconds": strconv.FormatInt(int64(opts.TokenLifetime.Seconds()), 10),
		"KroNamespace": namespace, "KroName": name,
		"Prefix": opts.names.Prefix(), "System": opts.names.SystemNamespace(), "NetworkCheck": opts.names.NetworkCheckNamespace(),
		"Group": opts.names.Group(), "Provider": opts.provider,
		"SystemNamespaces": placement.SystemNamespaces, "Groups": placement.Groups,
		"APIVersions": contract.APIVersions, "KubernetesKinds": contract.KubernetesKinds,
		"OwnGroups": contract.OwnGroups, "ReservedGroups": contract.ReservedGroups,
	}
}

// podSecurity is the pod security level that the operator has set for placements. The runtime
// cluster holds the controllers to it, so that it takes an administrator of that cluster, who
// runs init, to let placements enforce less.
func podSecurity(ctx context.Context, kcp *applier) (string, error) {
	level := podSecurityLevels[0]
	if kcp.absent {
		return level, nil
	}
	provider := &unstructured.Unstructured{}
	provider.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("InfrastructureProvider"))
	err := kcp.client.Get(ctx, client.ObjectKey{Name: sandbarv1alpha1.InfrastructureProviderName}, provider)
	if err != nil && !notThere(err) {
		return "", fmt.Errorf("reading the pod security level of placements: %w", err)
	}
	set, _, _ := unstructured.NestedString(provider.Object, "spec", "isolation", "podSecurity")
	if set = cmp.Or(set, level); !slices.Contains(podSecurityLevels, set) {
		return "", fmt.Errorf("the InfrastructureProvider has the pod security level %q: it must be one of %s", set, strings.Join(podSecurityLevels, ", "))
	}
	return set, nil
}

// proxyImage is the image of proxies that the operator has set. The runtime cluster holds the controllers to it, so that a thief
// of their credential runs no other program beside the workloads of a Baseline.
func proxyImage(ctx context.Context, kcp *applier) (string, error) {
	image := kcp.opts.Provider.Images[intercept.Image]
	if kcp.absent {
		return image, nil
	}
	provider := &unstructured.Unstructured{}
	provider.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("InfrastructureProvider"))
	err := kcp.client.Get(ctx, client.ObjectKey{Name: sandbarv1alpha1.InfrastructureProviderName}, provider)
	if err != nil && !notThere(err) {
		return "", fmt.Errorf("reading the image of proxies: %w", err)
	}
	set, _, _ := unstructured.NestedString(provider.Object, "spec", "images", intercept.Image)
	return cmp.Or(set, image), nil
}

// isKroPolicy reports whether an object is the policy that bounds kro, or its binding.
func isKroPolicy(o *unstructured.Unstructured) bool {
	return o.GetName() == kroPolicy && o.GroupVersionKind().Group == "admissionregistration.k8s.io"
}

// removeKroPolicy removes what an earlier run has applied, for an operator who leaves kro to its rights.
func (a *applier) removeKroPolicy(ctx context.Context) error {
	if a.opts.KroServiceAccount != "" {
		return nil
	}
	for _, kind := range []string{"ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
		policy := &unstructured.Unstructured{}
		policy.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		policy.SetName(kroPolicy)
		err := a.client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		if notThere(err) {
			continue
		}
		if err == nil && !a.opts.DryRun {
			err = client.IgnoreNotFound(a.client.Delete(ctx, policy))
		}
		if err != nil {
			return fmt.Errorf("removing the policy that bounds kro: %w", err)
		}
		a.report.add(a.where, kind, kroPolicy, Deleted)
	}
	return nil
}

// checkKro says what there is to know of kro's rights: a policy for an identity that is not kro's
// would bound nobody.
func (a *applier) checkKro(ctx context.Context) error {
	namespace, name, ok := strings.Cut(a.opts.KroServiceAccount, "/")
	if !ok {
		a.opts.Progress("kro is not held to placements: a thief of the controllers' credential can use all of kro's rights. Name the ServiceAccount of kro with --kro-service-account to prevent that")
		return nil
	}
	account := &unstructured.Unstructured{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := a.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, account)
	if notThere(err) {
		return fmt.Errorf("the runtime cluster has no ServiceAccount %s for kro to run as: name the one that it does run as with "+
			"--kro-service-account NAMESPACE/NAME (helm shows it), or give an empty one to leave kro to its rights", a.opts.KroServiceAccount)
	}
	if err != nil {
		return fmt.Errorf("looking for the ServiceAccount of kro: %w", err)
	}
	everything, err := a.mayDoAnything(ctx, namespace, name)
	if err != nil {
		return fmt.Errorf("asking what kro may do: %w", err)
	}
	if everything {
		a.opts.Progress("kro may do anything on the runtime cluster, so a thief of its token can too: install it with rbac.mode=aggregation, which leaves it the rights that init gives it")
	}
	return nil
}

// mayDoAnything asks the cluster whether a ServiceAccount is what people call cluster-admin.
func (a *applier) mayDoAnything(ctx context.Context, namespace, name string) (bool, error) {
	review := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"user":               "system:serviceaccount:" + namespace + ":" + name,
		"groups":             []any{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
		"resourceAttributes": map[string]any{"verb": "*", "group": "*", "version": "*", "resource": "*"},
	}}}
	review.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"))
	if err := a.client.Create(ctx, review); err != nil {
		return false, err
	}
	allowed, _, err := unstructured.NestedBool(review.Object, "status", "allowed")
	return allowed, err
}
