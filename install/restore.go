// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// RestoreServices gives Services in front of which there are proxies their own pods back, on the runtime cluster alone: from the
// annotation that each has, without kcp and without the controllers. Of opts it needs Runtime, DryRun and Timeout. namespace is where;
// empty for all. It may be run any number of times.
//
// Controllers that run, and are asked for the proxies, put them back.
func RestoreServices(ctx context.Context, opts Options, namespace string) (Report, error) {
	var report Report
	if opts.Runtime == nil {
		return report, errors.New("the runtime cluster is needed")
	}
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	rt, err := newApplier("runtime", opts.Runtime, opts, &report)
	if err != nil {
		return report, err
	}
	return report, rt.restoreServices(ctx, namespace)
}

// restoreServices goes on after a Service that cannot be restored, and reports all that it could not do.
func (a *applier) restoreServices(ctx context.Context, namespace string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	if err := a.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing the Services: %w", err)
	}
	var errs []error
	for i := range list.Items {
		service, err := serviceOf(&list.Items[i])
		if err == nil && !intercept.HasTraces(service) {
			continue
		}
		if err == nil {
			err = a.restoreService(ctx, client.ObjectKeyFromObject(service))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("restoring Service %s: %w", qualified(&list.Items[i]), err))
			continue
		}
		a.report.add(a.where, "Service", qualified(&list.Items[i]), Updated)
	}
	return errors.Join(errs...)
}

// restoreService writes one Service under the version that was read, again if somebody was faster.
func (a *applier) restoreService(ctx context.Context, key client.ObjectKey) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		service, err := a.readService(ctx, key)
		if err != nil || service == nil {
			return err
		}
		behind, err := a.readService(ctx, client.ObjectKey{Namespace: key.Namespace, Name: intercept.BaselineName(key.Name)})
		if err != nil {
			return err
		}
		restored, err := intercept.Restored(service, behind)
		if err != nil {
			return err //nolint:wrapcheck // its words are for the person who restores
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
		object.SetNamespace(key.Namespace)
		object.SetName(key.Name)
		options := []client.PatchOption{fieldOwner}
		if a.opts.DryRun {
			options = append(options, client.DryRunAll)
		}
		return a.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, intercept.Patch(service, restored)), options...) //nolint:wrapcheck // retried by its type
	})
	if err != nil {
		return fmt.Errorf("restoring it: %w", err)
	}
	return nil
}

// readService reads a Service; nil if there is none.
func (a *applier) readService(ctx context.Context, key client.ObjectKey) (*corev1.Service, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	err := a.client.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", key, err)
	}
	return serviceOf(object)
}

func serviceOf(object *unstructured.Unstructured) (*corev1.Service, error) {
	service := &corev1.Service{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, service); err != nil {
		return nil, fmt.Errorf("reading Service %s: %w", qualified(object), err)
	}
	return service, nil
}
