// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/client/bind"
	"github.com/sandbar-dev/sandbar/client/session"
)

// binding looks for the APIBinding that brings the resource, and for the claims that it should accept.
func (e *examination) binding(ctx context.Context) Check {
	resource := e.Resource.GroupResource()
	_, err := e.objects.Resource(e.Resource).Namespace(e.namespace).List(ctx, metav1.ListOptions{Limit: 1})
	served := err == nil || apierrors.IsForbidden(err)
	offers, listing := client.Offers(ctx, e.cfg)
	switch {
	case apierrors.IsForbidden(listing) && served:
		return warning(BindingsHidden, "", "the workspace serves %s, and you may not read its APIBindings", resource)
	case listing != nil && !apierrors.IsNotFound(listing):
		return failed(Unknown, "", "%v", listing)
	case !served && !apierrors.IsNotFound(err):
		return failed(Unknown, "", "%v", err)
	}
	for i := range offers {
		if offers[i].Serves(resource) {
			e.offer = &offers[i]
		}
	}
	switch {
	case !served && e.offer != nil:
		return failed(NotServed, e.offer.Binding, "the binding %s has %s, and the workspace does not serve it yet", e.offer.Binding, resource)
	case !served:
		return failed(NotBound, resource.String(), "no binding brings %s into the workspace", resource)
	case e.offer == nil:
		return warning(NoDataPlane, resource.String(), "the workspace serves %s, and no binding of it names a data plane", resource)
	}
	return e.claims(ctx)
}

// claims compares the binding with what Sandbar uses.
func (e *examination) claims(ctx context.Context) Check {
	lacks, err := bind.Missing(ctx, e.cfg, e.offer.Binding)
	if err != nil {
		return failed(Unknown, "", "%v", err)
	}
	if len(lacks) > 0 {
		var names, purposes []string
		for _, c := range lacks {
			names, purposes = append(names, c.String()), append(purposes, c.Purpose)
		}
		return warning(ClaimMissing, e.offer.Binding, "the binding %s does not grant %s, which the provider uses to %s",
			e.offer.Binding, strings.Join(names, " and "), strings.Join(purposes, ", and to "))
	}
	return passed("%s brings %s", e.offer.Binding, e.Resource.GroupResource())
}

// dataPlane looks whether the data plane is trusted and answers. It gets no credential.
func (e *examination) dataPlane(ctx context.Context) Check {
	if e.offer == nil {
		return Check{State: Skipped, Detail: "no binding that you may read names one"}
	}
	planes, err := session.Workspace{Config: e.cfg, Trust: e.Trust}.Trusted()
	if err != nil {
		return failed(Unknown, "", "%v", err)
	}
	switch session.StandingOf(planes, *e.offer) {
	case session.NotTrusted:
		return failed(NotTrusted, e.offer.URL, "%s may not get your token yet", e.offer.URL)
	case session.TrustedOtherCA:
		return failed(OtherCA, e.offer.URL, "%s has another CA than the one that you trusted", e.offer.URL)
	case session.IsTrusted:
	}
	for _, p := range planes {
		if !p.Is(e.offer.URL) {
			continue
		}
		if err := p.Probe(ctx, e.cfg); err != nil {
			return failed(DataPlaneSilent, e.offer.URL, "%v", err)
		}
	}
	return passed("%s is trusted and answers", e.offer.URL)
}

// A right is a verb of Kubernetes on an instance, or on one of its subresources.
type right struct{ subresource, verb string }

// needed is what nothing works without; wanted is what a person uses to develop.
var (
	needed = right{"", "get"}
	wanted = []right{
		{"", "create"},
		{"", "update"},
		{"", "delete"},
		{"log", "get"},
		{"files", "get"},
		{"sync", "create"},
		{"exec", "create"},
		{"restart", "create"},
		{"proxy", "get"},
		{"proxy-url", "create"},
	}
)

// on returns the right as roles write it.
func (r right) on(resource string) string {
	if r.subresource != "" {
		resource += "/" + r.subresource
	}
	return r.verb + " " + resource
}

func (e *examination) rights(ctx context.Context) Check {
	has, err := e.may(ctx, needed)
	if err != nil {
		return failed(Unknown, "", "%v", err)
	}
	if !has {
		return failed(NoRight, e.namespace, "you may not %s in the namespace %s, which every verb needs", needed.on(e.Resource.Resource), e.namespace)
	}
	var lacks []string
	for _, r := range wanted {
		has, err := e.may(ctx, r)
		if err != nil {
			return failed(Unknown, "", "%v", err)
		}
		if !has {
			lacks = append(lacks, r.on(e.Resource.Resource))
		}
	}
	if len(lacks) > 0 {
		return warning(SomeRights, e.namespace, "in the namespace %s you may not %s", e.namespace, strings.Join(lacks, ", "))
	}
	return passed("you may create, develop and delete %s in the namespace %s", e.Resource.Resource, e.namespace)
}

// may asks the workspace whether the caller has a right there.
func (e *examination) may(ctx context.Context, r right) (bool, error) {
	ask := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: e.namespace, Verb: r.verb, Group: e.Resource.Group, Resource: e.Resource.Resource, Subresource: r.subresource,
		},
	}}
	ask.APIVersion, ask.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ask)
	if err != nil {
		return false, fmt.Errorf("asking the workspace for your rights: %w", err)
	}
	answer, err := e.objects.Resource(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")).
		Create(ctx, &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking the workspace for your rights: %w", err)
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
