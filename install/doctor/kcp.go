// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	kcpapisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/export"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const runInit = "run sandbar-provider init with the flags of the first time: it changes only what differs"

// checkKCP asks for a namespace that init makes: reaching it takes the server, its certificate, the credential and the
// workspace.
func (e *examination) checkKCP(ctx context.Context) []Finding {
	namespace := &corev1.Namespace{}
	err := e.kcp.Get(ctx, client.ObjectKey{Name: placement.SystemNamespace}, namespace)
	switch {
	case err == nil:
		return one(passed("%s answers, and the workspace %s is a provider's", e.KCP.Host, e.Workspace))
	case apierrors.IsNotFound(err):
		return one(failure("run sandbar-provider init, or name another --workspace", "there is no provider in %s: the workspace does not exist, or has no namespace %s", e.Workspace, placement.SystemNamespace))
	case apierrors.IsForbidden(err): // kcp says the same of a workspace that does not exist
		return one(failure("name another --workspace, or use the kubeconfig of an administrator", "there is no workspace %s, or it is not yours: %v", e.Workspace, err))
	case apierrors.IsUnauthorized(err):
		return one(failure("use another --kcp-kubeconfig", "kcp does not know the credential, or not any more"))
	default:
		return one(failure("check the network, the address and the certificate authority of --kcp-kubeconfig", "%s: %v", e.KCP.Host, err))
	}
}

func (e *examination) checkProvider(ctx context.Context) []Finding {
	provider := &sandbarv1alpha1.InfrastructureProvider{}
	err := e.kcp.Get(ctx, client.ObjectKey{Name: sandbarv1alpha1.InfrastructureProviderName}, provider)
	if err != nil {
		return one(failure(runInit, "the InfrastructureProvider %s cannot be read: %v", sandbarv1alpha1.InfrastructureProviderName, err))
	}
	e.provider = provider
	return one(passed("the data plane is at %s", provider.Spec.DataPlane.URL))
}

// checkExport looks at the APIExport, whether kcp serves it, and what it has.
func (e *examination) checkExport(ctx context.Context) []Finding {
	exported := &kcpapisv1alpha2.APIExport{}
	if err := e.kcp.Get(ctx, client.ObjectKey{Name: e.ExportName}, exported); err != nil {
		return one(failure(runInit, "the APIExport %s cannot be read: %v", e.ExportName, err))
	}
	found := notTrue("the APIExport "+e.ExportName, exported.Status.Conditions)
	if len(exported.Spec.Resources) == 0 {
		found = append(found, failure("see the check controllers, and whether there are Templates", "the APIExport %s has no kinds: tenants who bind it get nothing", e.ExportName))
	}
	if len(found) > 0 {
		return found
	}
	names := make([]string, 0, len(exported.Spec.Resources))
	for _, r := range exported.Spec.Resources {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return one(passed("%s serves %s", e.ExportName, strings.Join(names, ", ")))
}

// notTrue returns a finding for each condition of kcp that is not true.
func notTrue(what string, conditions conditionsv1alpha1.Conditions) []Finding {
	var found []Finding
	for _, c := range conditions {
		if c.Status != corev1.ConditionTrue {
			found = append(found, failure("the message is kcp's: look at kcp's log", "%s: %s is %s: %s", what, c.Type, c.Status, c.Message))
		}
	}
	return found
}

// mostNamed is how many objects of one kind a finding names.
const mostNamed = 5

// checkBindings looks at the workspaces that have bound the export.
func (e *examination) checkBindings(ctx context.Context) []Finding {
	endpoints, err := export.ReadEndpoints(ctx, e.kcp, e.ExportName)
	if err != nil {
		return one(failure(runInit, "%v", err))
	}
	var bound, unfinished []string
	for _, url := range endpoints.URLs {
		bindings, err := bindingsAt(ctx, e.KCP, url)
		if err != nil {
			return one(warning("run it with an administrator of the workspace", "the bindings at %s cannot be listed: %v", url, err))
		}
		for _, b := range bindings {
			cluster := b.GetAnnotations()["kcp.io/cluster"]
			if b.Status.Phase == kcpapisv1alpha2.APIBindingPhaseBound && len(notTrue("", b.Status.Conditions)) == 0 {
				bound = append(bound, cluster)
				continue
			}
			unfinished = append(unfinished, fmt.Sprintf("%s in %s (%s)", b.Name, cluster, messageOf(b)))
		}
	}
	if len(unfinished) > 0 {
		return one(warning("the tenants' verbs of the kinds that are missing answer with 404 until it is: kubectl describe apibinding in the workspace says more",
			"%d of %d bindings are not complete: %s", len(unfinished), len(bound)+len(unfinished), someOf(unfinished)))
	}
	if len(bound) == 0 {
		return one(passed("no workspace has bound the export yet"))
	}
	return one(passed("%d workspaces have bound the export", len(bound)))
}

// bindingsAt lists the bindings of all workspaces at an endpoint of the export.
func bindingsAt(ctx context.Context, cfg *rest.Config, url string) ([]kcpapisv1alpha2.APIBinding, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Host = url + "/clusters/*"
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	list, err := objects.Resource(kcpapisv1alpha2.SchemeGroupVersion.WithResource("apibindings")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	bindings := make([]kcpapisv1alpha2.APIBinding, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &bindings[i]); err != nil {
			return nil, err
		}
	}
	return bindings, nil
}

// messageOf is why a binding is not complete.
func messageOf(b kcpapisv1alpha2.APIBinding) string {
	for _, c := range b.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			return c.Message
		}
	}
	return "phase " + string(b.Status.Phase)
}

// someOf joins the first names of a list, and says how many more there are.
func someOf(names []string) string {
	slices.Sort(names)
	if len(names) <= mostNamed {
		return strings.Join(names, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(names[:mostNamed], "; "), len(names)-mostNamed)
}

func (e *examination) checkTemplates(ctx context.Context) []Finding {
	var list sandbarv1alpha1.TemplateList
	if err := e.kcp.List(ctx, &list); err != nil {
		return one(failure("", "the Templates cannot be listed: %v", err))
	}
	if len(list.Items) == 0 {
		return one(warning("apply one, or the built-in ones: sandbar-provider init --templates all", "there are no Templates: tenants have only the kinds of Sandbar itself"))
	}
	var found []Finding
	for _, t := range list.Items {
		ready := meta.FindStatusCondition(t.Status.Conditions, sandbarv1alpha1.TemplateReady)
		switch {
		case ready == nil:
			found = append(found, failure("see the check controllers", "the Template %s has no condition yet", t.Name))
		case ready.Status != metav1.ConditionTrue:
			found = append(found, failure("kubectl describe template "+t.Name+", in the provider workspace", "the Template %s is not Ready: %s: %s", t.Name, ready.Reason, ready.Message))
		}
	}
	if len(found) > 0 {
		return found
	}
	return one(passed("%d Templates are Ready", len(list.Items)))
}
