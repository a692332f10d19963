// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/client"
)

// pollInterval is how often [Plan.Wait] looks. A binding is served within seconds, and a watch would be one more right.
const pollInterval = 200 * time.Millisecond

// Kind is a kind that the workspace serves because of the binding.
type Kind struct {
	Kind     string
	Resource schema.GroupVersionResource
	// Namespaced is set if its objects are in namespaces.
	Namespaced bool

	denied bool // the caller may not list its objects
}

// Bound is what a workspace has from a binding.
type Bound struct {
	// Kinds are those that it serves, in the order of their names.
	Kinds []Kind
	// Conflict names kinds that the provider added since and that the workspace has from elsewhere; empty if it has none.
	Conflict string
	// Unmet are the permissions that the provider asks for and the binding does not grant.
	Unmet []Claim

	// denied is a resource that the caller may not list; empty if there is none.
	denied string
}

// NotServedError means that a binding exists, and the workspace does not serve its kinds within the time.
type NotServedError struct {
	Binding string
	After   time.Duration
	// Waiting is what was still to come.
	Waiting string
}

// Error implements error.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("the binding %s exists, and the workspace does not serve its kinds after %s: %s", e.Binding, e.After, e.Waiting)
}

// ConflictError means that the workspace has other kinds of the same names, from another binding or its own CRDs.
type ConflictError struct {
	Binding string
	// Message is kcp's, and names them.
	Message string
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("the binding %s exists, and its kinds are in conflict with others in the workspace: %s", e.Binding, e.Message)
}

// Wait returns when the workspace serves all kinds of the binding, and fails with a *[NotServedError] after the timeout.
// It ends at once with the context, with a *[ConflictError], and when the caller may not read the binding.
func (p *Plan) Wait(ctx context.Context, timeout time.Duration) (*Bound, error) {
	server, err := discoverer(p.cfg)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	waiting := "nothing is known of it yet"
	var deniedSince time.Time
	for {
		bound, next, err := p.observe(limited, server)
		if err == nil && bound != nil && bound.denied != "" {
			if deniedSince.IsZero() {
				deniedSince = time.Now()
			}
			if time.Since(deniedSince) < p.patience {
				bound, next = nil, "kcp does not let you list "+bound.denied+" yet"
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case limited.Err() != nil:
			return nil, &NotServedError{Binding: p.Binding, After: timeout, Waiting: waiting}
		case err != nil && !passing(err):
			return nil, err
		case err != nil:
			waiting = err.Error()
		case bound != nil:
			return bound, nil
		default:
			waiting = next
		}
		select {
		case <-limited.Done():
		case <-ticker.C:
		}
	}
}

// passing reports whether an error can be gone at the next attempt.
func passing(err error) bool {
	var status apierrors.APIStatus
	var redirect *client.RedirectError
	var conflict *ConflictError
	if errors.As(err, &redirect) || errors.As(err, &conflict) {
		return false
	}
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	return true
}

// observe returns what is bound if all of it is served, and otherwise what is still to come.
func (p *Plan) observe(ctx context.Context, server rest.Interface) (*Bound, string, error) {
	obj, err := p.objects.Resource(apiBindings).Get(ctx, p.Binding, metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("reading the APIBinding %s: %w", p.Binding, err)
	}
	b, err := readBinding(obj)
	if err != nil {
		return nil, "", fmt.Errorf("reading the APIBinding %s: %w", p.Binding, err)
	}
	if message := b.conflict("InitialBindingCompleted"); message != "" {
		return nil, "", &ConflictError{Binding: p.Binding, Message: message}
	}
	if done := b.condition("InitialBindingCompleted"); b.Status.Phase != "Bound" || done == nil || done.Status != metav1.ConditionTrue {
		return nil, b.unfinished(), nil
	}
	bound := &Bound{Unmet: b.unmet(), Conflict: b.conflict("BindingUpToDate")}
	for _, r := range b.Status.BoundResources {
		kind, err := p.served(ctx, server, schema.GroupResource{Group: r.Group, Resource: r.Resource})
		if err != nil {
			return nil, "", err
		}
		if kind != nil && kind.denied {
			bound.denied = kind.Resource.GroupResource().String()
		}
		if kind == nil {
			return nil, fmt.Sprintf("%s.%s is bound and not served yet", r.Resource, r.Group), nil
		}
		bound.Kinds = append(bound.Kinds, *kind)
	}
	slices.SortFunc(bound.Kinds, func(a, b Kind) int { return cmp.Compare(a.Kind, b.Kind) })
	return bound, "", nil
}

// conflict is kcp's message about other kinds of the same names that keep a condition from being true; empty for another
// reason.
func (b *apiBinding) conflict(condition string) string {
	if c := b.condition(condition); c != nil && c.Status == metav1.ConditionFalse && c.Reason == "NamingConflicts" {
		return c.Message
	}
	return ""
}

// unfinished is why kcp has not bound everything yet, in kcp's own words where it has some.
func (b *apiBinding) unfinished() string {
	for _, kind := range []string{"APIExportValid", "InitialBindingCompleted", "Ready"} {
		if c := b.condition(kind); c != nil && c.Status == metav1.ConditionFalse {
			return strings.Join([]string{c.Type, c.Reason, c.Message}, ": ")
		}
	}
	return "kcp is still binding it"
}

// unmet are the claims of the export that the binding does not grant.
func (b *apiBinding) unmet() []Claim {
	var out []Claim
	for _, asked := range b.Status.ExportPermissionClaims {
		lacks := asked.claim()
		for _, g := range b.Spec.PermissionClaims {
			if g.State == accepted && g.claim().is(lacks) {
				lacks = lacks.without(g.claim())
			}
		}
		if len(lacks.Verbs) > 0 && !lacks.isOptional() {
			out = append(out, lacks)
		}
	}
	return out
}

// discoverer is a client for the paths that list what a server has.
func discoverer(workspace *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg := rest.CopyConfig(workspace)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	server, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the workspace: %w", err)
	}
	return server, nil
}

// served is the kind of a resource that the workspace lists and whose objects it reads; nil if it does not yet.
func (p *Plan) served(ctx context.Context, server rest.Interface, resource schema.GroupResource) (*Kind, error) {
	var group metav1.APIGroup
	err := server.Get().AbsPath("/apis/" + resource.Group).Do(ctx).Into(&group)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // not yet
	}
	if err != nil {
		return nil, fmt.Errorf("reading the workspace's kinds: %w", err)
	}
	for _, version := range group.Versions {
		var list metav1.APIResourceList
		if err := server.Get().AbsPath("/apis/" + version.GroupVersion).Do(ctx).Into(&list); err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the workspace's kinds: %w", err)
		}
		at := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource.Resource })
		if at < 0 {
			continue
		}
		found := &Kind{Kind: list.APIResources[at].Kind, Resource: resource.WithVersion(version.Version), Namespaced: list.APIResources[at].Namespaced}
		// What is listed is not readable at the same moment.
		_, err := p.objects.Resource(found.Resource).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil //nolint:nilnil // not yet
		case apierrors.IsForbidden(err): // the right to list them is not everybody's
			found.denied = true
		case err != nil:
			return nil, fmt.Errorf("reading the %s of the workspace: %w", resource, err)
		}
		return found, nil
	}
	return nil, nil //nolint:nilnil // not yet
}
