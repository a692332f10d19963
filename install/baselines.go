// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/pkg/baseline"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var (
	// ErrNoBaseline is the error of GrantBaselines for a name that no Baseline has.
	ErrNoBaseline = errors.New("there is no such Baseline")
	// ErrReservedNamespace is the error of GrantBaselines for a namespace that no Baseline may have.
	ErrReservedNamespace = errors.New("it cannot be part of a Baseline")
	// ErrOtherProvider is the error of GrantBaselines for a namespace in which another provider has proxies.
	ErrOtherProvider = errors.New("another provider has proxies there")
	// ErrNotInstalled is the error of GrantBaselines where init has not been.
	ErrNotInstalled = errors.New("the provider is not installed")
)

const (
	// ruledNamespace is the namespace of the generated Role of Baselines, which stands for each.
	ruledNamespace = "baseline"
	// controllersAccount is the ServiceAccount of the controllers on the runtime cluster.
	controllersAccount = "sandbar-controllers"
)

// GrantBaselines lets the controllers read the namespaces of Baselines on the runtime cluster: a Role and a RoleBinding
// in each. Where a Baseline admits proxies in front of its Services, it also lets them put these there. Of opts it needs KCP, Runtime, Workspace, RuntimeName, DryRun and Timeout; both configurations have an
// administrator's rights.
//
// With names it adds what these Baselines need. Without, it makes the rights those that all Baselines need: it also
// deletes them where no Baseline is any more, and gives Services their own pods back where none admits proxies.
//
// A namespace that is not there is an error, after everything else was done.
func GrantBaselines(ctx context.Context, opts Options, names []string) (Report, error) {
	var report Report
	if err := opts.completeGrant(); err != nil {
		return report, err
	}
	kcp, err := newApplier("kcp", WorkspaceConfig(opts.KCP, opts.Workspace), opts, &report)
	if err != nil {
		return report, err
	}
	if opts.provider, err = kcp.logicalCluster(ctx); err != nil {
		return report, err
	}
	rt, err := newApplier("runtime", opts.Runtime, opts, &report)
	if err != nil {
		return report, err
	}
	if err := errors.Join(rt.checkOwner(ctx), rt.checkControllers(ctx)); err != nil {
		return report, err
	}
	wanted, err := kcp.namespacesOf(ctx, names)
	if err != nil {
		return report, err
	}
	err = rt.grant(ctx, wanted, len(names) > 0)
	if len(names) == 0 {
		// The Services first: without its rights nobody but an administrator would give them back.
		err = errors.Join(err, rt.withdrawProxies(ctx, wanted), rt.withdraw(ctx, wanted))
	}
	return report, err
}

func (o *Options) completeGrant() error {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if o.KCP == nil || o.Runtime == nil {
		return errors.New("both kcp and the runtime cluster are needed")
	}
	if !validWorkspace(o.Workspace) {
		return fmt.Errorf("the workspace %q is not a path such as root:sandbar", o.Workspace)
	}
	var err error
	if o.names, err = placement.NamesOf(o.RuntimeName); err != nil {
		return fmt.Errorf("the provider's name on the runtime cluster: %w", err)
	}
	return nil
}

// checkControllers refuses to give rights to a ServiceAccount that is not there: who can create it later would have them.
func (a *applier) checkControllers(ctx context.Context) error {
	account := &unstructured.Unstructured{}
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := a.client.Get(ctx, client.ObjectKey{Namespace: a.system, Name: controllersAccount}, account)
	if notThere(err) {
		return fmt.Errorf("%w: the runtime cluster has no ServiceAccount %s/%s: run sandbar-provider init first, or give the --runtime-name that it was given",
			ErrNotInstalled, a.system, controllersAccount)
	}
	if err != nil {
		return fmt.Errorf("looking for the ServiceAccount of the controllers: %w", err)
	}
	return nil
}

// opened is a namespace of Baselines: the first one that has it, and what all of them have copied.
type opened struct {
	by   string
	need granted
	// proxies is set if one of them admits proxies.
	proxies bool
}

// namespacesOf returns the namespaces of Baselines; of all if no names are given. One that is reserved is an error before
// anything is written.
func (a *applier) namespacesOf(ctx context.Context, names []string) (map[string]*opened, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(sandbarv1alpha1.GroupVersion.WithKind("BaselineList"))
	if err := a.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the Baselines of workspace %s: %w", a.opts.Workspace, err)
	}
	wanted := map[string]*opened{}
	var there []string
	for i := range list.Items {
		b := &sandbarv1alpha1.Baseline{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, b); err != nil {
			return nil, fmt.Errorf("reading Baseline %s: %w", list.Items[i].GetName(), err)
		}
		there = append(there, b.Name)
		if len(names) > 0 && !slices.Contains(names, b.Name) {
			continue
		}
		for _, n := range b.Spec.Namespaces {
			if baseline.Reserved(n.Name) {
				return nil, fmt.Errorf("namespace %s of Baseline %s: %w: take it out of spec.namespaces", n.Name, b.Name, ErrReservedNamespace)
			}
			if wanted[n.Name] == nil {
				wanted[n.Name] = &opened{by: b.Name, need: granted{}}
			}
			wanted[n.Name].need.add(&b.Spec.References)
			wanted[n.Name].proxies = wanted[n.Name].proxies || b.Spec.Routing.Proxy.Enabled
		}
	}
	for _, name := range names {
		if !slices.Contains(there, name) {
			return nil, fmt.Errorf("%w: %q; workspace %s has: %s", ErrNoBaseline, name, a.opts.Workspace, cmp.Or(strings.Join(there, ", "), "none"))
		}
	}
	return wanted, nil
}

// grant applies the Role and its RoleBinding in some namespaces, in all that are there. With kept it keeps what other
// Baselines have been given there.
func (a *applier) grant(ctx context.Context, wanted map[string]*opened, kept bool) error {
	var errs []error
	for _, namespace := range slices.Sorted(maps.Keys(wanted)) {
		there := &unstructured.Unstructured{}
		there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		err := a.client.Get(ctx, client.ObjectKey{Name: namespace}, there)
		if notThere(err) {
			errs = append(errs, fmt.Errorf("the runtime cluster has no namespace %s, which Baseline %s names: create it, or take it out of spec.namespaces",
				namespace, wanted[namespace].by))
			continue
		}
		if err != nil {
			return fmt.Errorf("looking for namespace %s: %w", namespace, err)
		}
		objects, err := baselineObjects(a.opts, namespace)
		if err != nil {
			return err
		}
		for _, object := range objects {
			if object.GetKind() == "Role" {
				if err := a.roleOf(ctx, object, wanted[namespace].need, kept); err != nil {
					return err
				}
			}
		}
		a.tell("the controllers may read in namespace %s: %s", namespace, wanted[namespace].need)
		if err := a.applyAll(ctx, objects); err != nil {
			return err
		}
		if !wanted[namespace].proxies {
			continue
		}
		if err := a.grantProxies(ctx, namespace); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// baselineObjects are the objects of a namespace of a Baseline, in the order of applying.
func baselineObjects(opts Options, namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := read(manifests, "manifests/baseline/*.yaml", map[string]string{
		"Prefix": opts.names.Prefix(), "System": opts.names.SystemNamespace(), "Namespace": namespace,
	})
	if err != nil {
		return nil, err
	}
	roles, err := read(generated, "rbac/baseline/*.yaml", nil)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		for _, role := range roles {
			if object.GetKind() == role.GetKind() && role.GetNamespace() == ruledNamespace {
				object.Object["rules"] = role.Object["rules"]
			}
		}
	}
	return objects, nil
}

// tell reports progress, if somebody wants to know.
func (a *applier) tell(format string, args ...any) {
	if a.opts.Progress != nil {
		a.opts.Progress(fmt.Sprintf(format, args...))
	}
}

// withdraw deletes the RoleBindings and Roles of this provider in namespaces that no Baseline has. The binding goes first:
// it is what gives the rights.
func (a *applier) withdraw(ctx context.Context, wanted map[string]*opened) error {
	for _, kind := range []string{"RoleBinding", "Role"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := a.client.List(ctx, list, client.MatchingLabels{placement.LabelManagedBy: placement.ManagedBy}); err != nil {
			return fmt.Errorf("listing what was granted before: %w", err)
		}
		for i := range list.Items {
			old := &list.Items[i]
			// Another provider on the cluster has another name, and Baselines of its own.
			if old.GetName() != baseline.RoleName(a.opts.names) || wanted[old.GetNamespace()] != nil {
				continue
			}
			if !a.opts.DryRun {
				if err := client.IgnoreNotFound(a.client.Delete(ctx, old)); err != nil {
					return fmt.Errorf("deleting %s %s: %w", kind, qualified(old), err)
				}
			}
			a.report.add(a.where, kind, qualified(old), Deleted)
		}
	}
	return nil
}
