// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Package podbase finds the pod template that an instance, or a SandboxTemplate, begins with: one that a
// Template of the operator's offers, or a tenant's SandboxTemplate.
//
// In: a reference, the Templates, and a way to read the SandboxTemplates of one namespace of one workspace.
// Out: a podtemplate.Base, or why there is none, in words for the tenant. It reads and writes nothing
// itself.
package podbase

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/podtemplate"
)

// Offer is a pod template that a Template offers.
type Offer struct {
	Base sandbarv1alpha1.PodTemplateBase
	// Usable is set while tenants may create instances of that Template.
	Usable bool
}

// Offers are those of all Templates, by name.
type Offers map[string]Offer

// OffersOf gathers what Templates offer.
func OffersOf(list []sandbarv1alpha1.Template) Offers {
	offers := Offers{}
	for i := range list {
		t := &list[i]
		if t.Spec.Base == nil {
			continue
		}
		usable := t.DeletionTimestamp.IsZero() && t.Status.Resource != "" &&
			meta.IsStatusConditionTrue(t.Status.Conditions, sandbarv1alpha1.TemplateReady)
		offers[t.Name] = Offer{Base: *t.Spec.Base.DeepCopy(), Usable: usable}
	}
	return offers
}

// UnusableError says why a reference leads to no pod template. It may come to be one without a change of
// who refers.
type UnusableError struct{ Message string }

func (u *UnusableError) Error() string { return u.Message }

func unusable(format string, args ...any) error {
	return &UnusableError{Message: fmt.Sprintf(format, args...)}
}

// Named reads the SandboxTemplate of a name in the namespace of who refers; nil if there is none.
type Named func(ctx context.Context, name string) (*sandbarv1alpha1.SandboxTemplate, error)

// Find returns the base that a reference leads to, and the UIDs of the SandboxTemplates on the way: while
// they are the same, only the operator can have changed it. The error is an *UnusableError when the
// reference leads to no pod template.
func (o Offers) Find(ctx context.Context, ref *sandbarv1alpha1.PodTemplateRef, named Named) (base *podtemplate.Base, uids string, err error) {
	if ref.Kind != sandbarv1alpha1.RefSandboxTemplate {
		base, err = o.template(ref.Name)
		return base, "", err
	}
	own, err := find(ctx, ref.Name, named)
	if err != nil {
		return nil, "", err
	}
	return o.Own(ctx, own, named)
}

// UIDs are those that Find returns with a base: from them a caller sees that the base may be another one by now, without making it.
// The error is an *UnusableError when a SandboxTemplate on the way is not there.
func (o Offers) UIDs(ctx context.Context, ref *sandbarv1alpha1.PodTemplateRef, named Named) (string, error) {
	if ref.Kind != sandbarv1alpha1.RefSandboxTemplate {
		return "", nil
	}
	own, err := find(ctx, ref.Name, named)
	if err != nil {
		return "", err
	}
	uids := string(own.UID)
	if next := own.Spec.TemplateRef; next != nil && next.Kind == sandbarv1alpha1.RefSandboxTemplate {
		rests, err := find(ctx, next.Name, named)
		if err != nil {
			return "", err
		}
		uids += "," + string(rests.UID)
	}
	return uids, nil
}

// Own is Find for a SandboxTemplate itself.
func (o Offers) Own(ctx context.Context, own *sandbarv1alpha1.SandboxTemplate, named Named) (base *podtemplate.Base, uids string, err error) {
	all := []string{string(own.UID)}
	switch ref := own.Spec.TemplateRef; {
	case ref == nil:
	case ref.Kind == sandbarv1alpha1.RefSandboxTemplate:
		next, err := find(ctx, ref.Name, named)
		if err != nil {
			return nil, "", err
		}
		if named := next.Spec.TemplateRef; named != nil && named.Kind == sandbarv1alpha1.RefSandboxTemplate {
			return nil, "", unusable("SandboxTemplate %q refers to SandboxTemplate %q, which refers to another one; name one with a template of its own, or a Template", own.Name, next.Name)
		}
		all = append(all, string(next.UID))
		if base, _, err = o.Own(ctx, next, named); err != nil {
			return nil, "", err
		}
	default:
		if base, err = o.template(ref.Name); err != nil {
			return nil, "", err
		}
	}
	base, err = podtemplate.OwnBase(&own.Spec, base)
	if err != nil {
		return nil, "", unusable("SandboxTemplate %q cannot be used: %v", own.Name, err)
	}
	return base, strings.Join(all, ","), nil
}

func find(ctx context.Context, name string, named Named) (*sandbarv1alpha1.SandboxTemplate, error) {
	own, err := named(ctx, name)
	if err != nil {
		return nil, err
	}
	if own == nil {
		return nil, unusable("there is no SandboxTemplate %q in this namespace; create it, or name another", name)
	}
	return own, nil
}

func (o Offers) template(name string) (*podtemplate.Base, error) {
	offer, ok := o[name]
	switch {
	case !ok:
		return nil, unusable("no Template %q of the provider offers a pod template; name another, or write podTemplate", name)
	case !offer.Usable:
		return nil, unusable("Template %q is not Ready, so nothing can be made of it; this goes on by itself when the operator has mended it", name)
	}
	base, err := podtemplate.NewBase(&offer.Base)
	if err != nil {
		return nil, unusable("the operator has to correct spec.base of Template %q: %v", name, err)
	}
	return base, nil
}
