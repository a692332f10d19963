// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	wire "github.com/sandbar-dev/sandbar/apis/intercept"
	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/intercept"
)

// The dry runs of a thief, each of an object as it is there and a change.

func (s thief) changeProxies(namespace string, change func(d *appsv1.Deployment, pod *corev1.PodSpec)) attempt {
	return func(ctx context.Context) error {
		d, err := s.kube.AppsV1().Deployments(namespace).Get(ctx, intercept.ProxyName("backend"), metav1.GetOptions{})
		if err != nil {
			return err
		}
		delete(d.Annotations, "deployment.kubernetes.io/revision") // which is not the controllers'
		change(d, &d.Spec.Template.Spec)
		_, err = s.kube.AppsV1().Deployments(namespace).Update(ctx, d, metav1.UpdateOptions{DryRun: inDryRun})
		return err
	}
}

func (s thief) changeBudget(namespace string, change func(b *policyv1.PodDisruptionBudget)) attempt {
	return func(ctx context.Context) error {
		b, err := s.kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, intercept.ProxyName("backend"), metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(b)
		_, err = s.kube.PolicyV1().PodDisruptionBudgets(namespace).Update(ctx, b, metav1.UpdateOptions{DryRun: inDryRun})
		return err
	}
}

func (s thief) changeService(namespace, name string, change func(s *corev1.Service)) attempt {
	return func(ctx context.Context) error {
		service, err := s.kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(service)
		_, err = s.kube.CoreV1().Services(namespace).Update(ctx, service, metav1.UpdateOptions{DryRun: inDryRun})
		return err
	}
}

func (s thief) deleteService(namespace, name string) attempt {
	return func(ctx context.Context) error {
		return s.kube.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: inDryRun})
	}
}

func (s thief) patchProxyConfig(namespace, name, patch string) attempt {
	return func(ctx context.Context) error {
		_, err := s.kube.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: inDryRun})
		return err
	}
}

// stealsProxies has a thief of the controllers' credential try what leads on from proxies in front of the Service backend, whose
// requests are led to them. install has a table of all fields.
func stealsProxies(t *testing.T, namespace string) {
	s := steal(t, filepath.Join(world.Dir, install.ControllersKubeconfig))
	proxies := func(change func(d *appsv1.Deployment, pod *corev1.PodSpec)) attempt {
		return s.changeProxies(namespace, change)
	}
	behind := func(change func(s *corev1.Service)) attempt {
		return s.changeService(namespace, intercept.BaselineName("backend"), change)
	}
	live := func(change func(s *corev1.Service)) attempt { return s.changeService(namespace, "backend", change) }
	config := func(patch string) attempt { return s.patchProxyConfig(namespace, wire.ConfigMap, patch) }
	tries(t, map[string]attempt{
		"write the proxies as they are": proxies(func(*appsv1.Deployment, *corev1.PodSpec) {}),
		"write their budget as it is":   s.changeBudget(namespace, func(*policyv1.PodDisruptionBudget) {}),
		"write the Service behind":      behind(func(*corev1.Service) {}),
		"give the Service its own pods": live(func(s *corev1.Service) {
			restored, err := intercept.Restored(s, nil)
			if err != nil {
				t.Error(err)
				return
			}
			*s = *restored
		}),
		"write a document":    config(`{"data":{"backend.json":"{}"}}`),
		"write what is asked": s.patchProxyConfig(namespace, intercept.RoutesConfigMap, `{"data":{"a":"b"}}`),
	}, map[string]attempt{
		"run another program": proxies(func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.Containers[0].Image = "thief" }),
		"run many":            proxies(func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.Spec.Replicas = new(int32(100)) }),
		"have proxies in another's pods": proxies(func(d *appsv1.Deployment, _ *corev1.PodSpec) {
			d.Spec.Template.Labels["app.kubernetes.io/name"] = "payments"
		}),
		"have something put into them": proxies(func(d *appsv1.Deployment, _ *corev1.PodSpec) {
			d.Spec.Template.Annotations["sidecar.istio.io/inject"] = "true"
		}),
		"give them other names of hosts": proxies(func(_ *appsv1.Deployment, p *corev1.PodSpec) {
			p.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"backend-sandbar-baseline"}}}
		}),
		"give them another DNS": proxies(func(_ *appsv1.Deployment, p *corev1.PodSpec) {
			p.DNSPolicy, p.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}
		}),
		"give them a priority": proxies(func(_ *appsv1.Deployment, p *corev1.PodSpec) { p.PriorityClassName = "system-cluster-critical" }),
		"have a node call a host": proxies(func(_ *appsv1.Deployment, p *corev1.PodSpec) {
			p.Containers[0].ReadinessProbe.HTTPGet.Host = "169.254.169.254"
		}),
		"have requests in a log": proxies(func(_ *appsv1.Deployment, p *corev1.PodSpec) {
			p.Containers[0].Args = append(p.Containers[0].Args, "--access-log")
		}),
		"keep nodes from a drain":  s.changeBudget(namespace, func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.FromString("100%")) }),
		"have others' pods behind": behind(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "thief"} }),
		"open the Service behind":  behind(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }),
		"annotate it":              behind(func(s *corev1.Service) { s.Annotations = map[string]string{"tailscale.com/expose": "true"} }),
		"take its address":         s.deleteService(namespace, intercept.BaselineName("backend")),
		"delete the Service":       s.deleteService(namespace, "backend"),
		"label the Service":        live(func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }),
		"lead it elsewhere":        live(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "thief"} }),
		"hide where the right is":  s.patchProxyConfig(namespace, intercept.RoutesConfigMap, `{"metadata":{"labels":null}}`),
		"give it another provider": s.patchProxyConfig(namespace, intercept.RoutesConfigMap, `{"metadata":{"annotations":null}}`),
		"keep a document for ever": config(`{"immutable":true}`),
	})
}
