// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/install"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var (
	graphs   = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"}
	exports  = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apiexports"}
	kinds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	slicesOf = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}
	inDryRun = []string{metav1.DryRunAll}
)

// thief has a stolen credential and tries what it may.
type thief struct {
	kube kubernetes.Interface
	dyn  dynamic.Interface
	// provider is the one in whose name the thief makes Namespaces.
	provider string
}

func steal(t *testing.T, kubeconfig string) thief {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return thief{kube: kubernetes.NewForConfigOrDie(cfg), dyn: dynamic.NewForConfigOrDie(cfg)}
}

// attempt is something that a thief tries. It changes nothing where it is let through: writes
// are dry runs, connections go without what begins them.
type attempt func(ctx context.Context) error

// tries compares what is let through with what docs/security.md says: everything in may, nothing in
// mayNot.
func tries(t *testing.T, may, mayNot map[string]attempt) {
	t.Helper()
	for what, try := range mayNot {
		if err := try(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
	for what, try := range may {
		if err := try(t.Context()); apierrors.IsForbidden(err) {
			t.Errorf("it may not %s, and docs/security.md says that it may: %v", what, err)
		}
	}
}

func (s thief) readSecret(namespace, name string) attempt {
	return func(ctx context.Context) error {
		_, err := s.kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // it may look
		}
		return err
	}
}

func (s thief) listSecrets(options metav1.ListOptions) attempt {
	return func(ctx context.Context) error {
		_, err := s.kube.CoreV1().Secrets("").List(ctx, options)
		return err
	}
}

// connect begins a connection without its upgrade: who may make it is told what is missing.
func (s thief) connect(resource, namespace, name, subresource string) attempt {
	return func(ctx context.Context) error {
		err := s.kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource(resource).Name(name).SubResource(subresource).
			Param("command", "true").Param("stdout", "true").Do(ctx).Error()
		if apierrors.IsBadRequest(err) || apierrors.IsServiceUnavailable(err) {
			return nil
		}
		return err
	}
}

func (s thief) token(account string, spec authenticationv1.TokenRequestSpec) attempt {
	return func(ctx context.Context) error {
		namespace, name, _ := strings.Cut(account, "/")
		_, err := s.kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
		return err
	}
}

func (s thief) pod(namespace string, privileged, dryRun bool) attempt {
	return func(ctx context.Context) error {
		no, user := false, int64(1000)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "stolen-", Namespace: namespace}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "a", Image: "none", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		}}
		if privileged {
			pod.Spec.HostPID = true
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
		}
		options := metav1.CreateOptions{}
		if dryRun {
			options.DryRun = inDryRun
		}
		_, err := s.kube.CoreV1().Pods(namespace).Create(ctx, pod, options)
		return err
	}
}

// resize gives a pod other resources, where it is let through in a dry run.
func (s thief) resize(namespace, name string) attempt {
	return func(ctx context.Context) error {
		_, err := s.kube.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: inDryRun}, "resize")
		return err
	}
}

// proxied calls a path of a port of a pod through the API server. Any answer of the pod means that the call was let through; a
// runner refuses it by itself, since it has no proof.
func (s thief) proxied(namespace, pod, path string) attempt {
	return func(ctx context.Context) error {
		err := s.kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("proxy").Suffix(path).Do(ctx).Error()
		if apierrors.IsForbidden(err) {
			return err
		}
		return nil
	}
}

func (s thief) namespace(name string, labels map[string]string) attempt {
	return func(ctx context.Context) error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: labels, Annotations: map[string]string{placement.AnnotationProvider: s.provider},
		}}
		_, err := s.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{DryRun: inDryRun})
		return err
	}
}

func (s thief) patchNamespace(name, patch string) attempt {
	return func(ctx context.Context) error {
		_, err := s.kube.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: inDryRun})
		return err
	}
}

func (s thief) deleteNamespace(name string) attempt {
	return func(ctx context.Context) error {
		return s.kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{DryRun: inDryRun})
	}
}

func (s thief) secret(namespace, name string) attempt {
	return func(ctx context.Context) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		_, err := s.kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{DryRun: inDryRun})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

func (s thief) lease(namespace, name string) attempt {
	return func(ctx context.Context) error {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		_, err := s.kube.CoordinationV1().Leases(namespace).Create(ctx, lease, metav1.CreateOptions{DryRun: inDryRun})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

func (s thief) networkPolicy(namespace string) attempt {
	return func(ctx context.Context) error {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "stolen", Namespace: namespace}}
		_, err := s.kube.NetworkingV1().NetworkPolicies(namespace).Create(ctx, policy, metav1.CreateOptions{DryRun: inDryRun})
		return err
	}
}

// route makes a route for the requests that have a header.
func (s thief) route(namespace, header, value string) attempt {
	return func(ctx context.Context) error {
		obj := &unstructured.Unstructured{}
		err := yaml.Unmarshal(fmt.Appendf(nil, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: stolen}, spec: {
			parentRefs: [{name: public, namespace: edge}], rules: [{matches: [{headers: [{name: %q, value: %q}]}]}]}}`, header, value), &obj.Object)
		if err == nil {
			_, err = s.dyn.Resource(httpRoutes).Namespace(namespace).Create(ctx, obj, metav1.CreateOptions{DryRun: inDryRun})
		}
		return err
	}
}

func (s thief) configMap(namespace, name string) attempt {
	return func(ctx context.Context) error {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
		_, err := s.kube.CoreV1().ConfigMaps(namespace).Create(ctx, config, metav1.CreateOptions{DryRun: inDryRun})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

// openForGood makes a network policy that is stored, where it is let through.
func (s thief) openForGood(namespace string) attempt {
	return func(ctx context.Context) error {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "stolen", Namespace: namespace}}
		_, err := s.kube.NetworkingV1().NetworkPolicies(namespace).Create(ctx, policy, metav1.CreateOptions{})
		return err
	}
}

func (s thief) patchConfigMap(namespace, name string) attempt {
	return func(ctx context.Context) error {
		_, err := s.kube.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{DryRun: inDryRun})
		return err
	}
}

func (s thief) deleteConfigMap(namespace, name string) attempt {
	return func(ctx context.Context) error {
		return s.kube.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: inDryRun})
	}
}

func (s thief) service(namespace, name string, spec corev1.ServiceSpec) attempt {
	return func(ctx context.Context) error {
		spec.Ports = []corev1.ServicePort{{Name: "a", Port: 1}}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec}
		_, err := s.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{DryRun: inDryRun})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

// canary makes an instance of the canary's kind.
func (s thief) canary(namespace, name string) attempt {
	return func(ctx context.Context) error {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandbarCanary", "metadata": map[string]any{"name": name},
		}}
		kind := schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandbarcanaries"}
		_, err := s.dyn.Resource(kind).Namespace(namespace).Create(ctx, obj, metav1.CreateOptions{DryRun: inDryRun})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

// checkPod makes a pod for the check of network policies, in a dry run.
func (s thief) checkPod(name string, seconds int64) attempt {
	return func(ctx context.Context) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"sandbar.dev/netcheck": name}},
			Spec: corev1.PodSpec{
				ActiveDeadlineSeconds: &seconds, TerminationGracePeriodSeconds: new(int64(0)),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(1000)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "a", Image: "none",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Mi"),
					}},
					SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
				}},
			},
		}
		_, err := s.kube.CoreV1().Pods(placement.NetworkCheckNamespace).Create(ctx, pod, metav1.CreateOptions{DryRun: inDryRun})
		return err
	}
}

// checkPolicy makes the network policy under which DNS is tried, or another one there, in a dry run.
func (s thief) checkPolicy(name, about string) attempt {
	return func(ctx context.Context) error {
		raw := fmt.Appendf(nil, `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":%q},"spec":{"podSelector":{"matchLabels":{"sandbar.dev/netcheck":%q}}}}`, name, about)
		_, err := s.kube.NetworkingV1().NetworkPolicies(placement.NetworkCheckNamespace).Patch(ctx, name, types.ApplyPatchType, raw,
			metav1.PatchOptions{DryRun: inDryRun, FieldManager: "thief", Force: new(true)})
		return err
	}
}

func (s thief) deleteGraph(name string) attempt {
	return func(ctx context.Context) error {
		return s.dyn.Resource(graphs).Delete(ctx, name, metav1.DeleteOptions{DryRun: inDryRun})
	}
}

func (s thief) deleteKind(name string) attempt {
	return func(ctx context.Context) error {
		return s.dyn.Resource(kinds).Delete(ctx, name, metav1.DeleteOptions{DryRun: inDryRun})
	}
}

func (s thief) clusterAdmin(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stolen"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "thief"}},
	}
	_, err := s.kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{DryRun: inDryRun})
	return err
}

// graph makes a graph of a kind with one resource.
func (s thief) graph(group, resource string) attempt {
	return func(ctx context.Context) error {
		_, err := s.dyn.Resource(graphs).Create(ctx, graphOf(group, "Stolen", resource), metav1.CreateOptions{DryRun: inDryRun})
		return err
	}
}

func graphOf(group, kind, resource string) *unstructured.Unstructured {
	text := fmt.Sprintf(`
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: %s}
spec:
  schema: {apiVersion: v1alpha1, kind: %s, group: %s, spec: {a: 'string | default="b"'}}
  resources: [%s]
`, strings.ToLower(kind), kind, group, resource)
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		panic(err)
	}
	return object
}

// TestAStolenCredentialIsWorthNoMoreThanItsWork steals each credential of the product and tries what
// leads on from it. docs/security.md has the table of what each is worth.
func TestAStolenCredentialIsWorthNoMoreThanItsWork(t *testing.T) {
	calm(t)
	tn := newTenant(t, "alice")
	box := tn.runner("web")
	box.waitReady()
	at := box.id.Namespace()
	admin := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	podIn := func(namespace string) string {
		pods, err := admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil || len(pods.Items) == 0 {
			t.Fatalf("no pod in %s: %v", namespace, err)
		}
		return pods.Items[0].Name
	}
	pod, dns := podIn(at), podIn("kube-system")
	valid := placement.ID{Origin: "stolen", UID: "stolen"}.Namespace()
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	ours, err := admin.CoreV1().Namespaces().Get(t.Context(), at, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stolen := func(file string) thief {
		s := steal(t, filepath.Join(world.Dir, file))
		s.provider = placement.ProviderOf(ours)
		return s
	}
	// What another provider has on the cluster.
	theirs := placement.ID{Origin: "another", UID: types.UID(randomHex(4))}.Namespace()
	_, err = admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: theirs, Labels: restricted, Annotations: map[string]string{placement.AnnotationProvider: "another"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.CoreV1().Namespaces().Delete(context.Background(), theirs, metav1.DeleteOptions{}) })

	t.Run("serve on the runtime cluster", func(t *testing.T) {
		s := stolen(install.ServeKubeconfig)
		tries(t, map[string]attempt{
			"read control tokens":            s.listSecrets(metav1.ListOptions{FieldSelector: "metadata.name=" + placement.ControlSecret}),
			"read the keys of preview links": s.readSecret(placement.SystemNamespace, placement.PreviewKeysSecret),
			"run commands in sandboxes":      s.connect("pods", at, pod, "exec"),
			"read a password":                s.readSecret(at, placement.PasswordSecret),
			"renew its token":                s.token("sandbar-system/sandbar-serve", authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}),
			"read every pod's log": func(ctx context.Context) error {
				return s.kube.CoreV1().Pods("kube-system").GetLogs(dns, &corev1.PodLogOptions{TailLines: new(int64(1))}).Do(ctx).Error()
			},
			"write when an instance was used": func(ctx context.Context) error {
				_, err := s.kube.CoordinationV1().Leases(at).Patch(ctx, placement.ActivityLease, types.MergePatchType, []byte(`{"spec":{"holderIdentity":"x"}}`), metav1.PatchOptions{DryRun: inDryRun})
				return err
			},
		}, map[string]attempt{
			"list all Secrets":                         s.listSecrets(metav1.ListOptions{}),
			"list the Secrets of placements":           s.listSecrets(metav1.ListOptions{LabelSelector: placement.LabelInstanceUID}),
			"list Secrets by type":                     s.listSecrets(metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}),
			"read another Secret of its own namespace": s.readSecret(placement.SystemNamespace, "sandbar-controllers-token"),
			"list passwords":                           s.listSecrets(metav1.ListOptions{FieldSelector: "metadata.name=" + placement.PasswordSecret}),
			"run commands elsewhere":                   s.connect("pods", "kube-system", dns, "exec"),
			"attach elsewhere":                         s.connect("pods", "kube-system", dns, "attach"),
			"forward ports elsewhere":                  s.connect("pods", "kube-system", dns, "portforward"),
			"reach pods elsewhere":                     s.connect("pods", "kube-system", dns, "proxy"),
			"reach Services elsewhere":                 s.connect("services", "kube-system", "kube-dns", "proxy"),
			"run commands in another provider's":       s.connect("pods", theirs, "web", "exec"),
			"make pods":                                s.pod(at, false, true),
			"make privileged pods":                     s.pod("kube-system", true, true),
			"take the controllers' identity":           s.token("sandbar-system/sandbar-controllers", authenticationv1.TokenRequestSpec{}),
			"take kro's identity":                      s.token("kro-system/kro", authenticationv1.TokenRequestSpec{}),
			"have a token for a year":                  s.token("sandbar-system/sandbar-serve", authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(365 * 24 * 3600))}),
			"write a Lease of the cluster":             s.lease("kube-system", "stolen"),
			"write a Lease of the controllers":         s.lease(placement.SystemNamespace, "sandbar-controllers"),
			"delete a placement":                       s.deleteNamespace(at),
			"be cluster-admin":                         s.clusterAdmin,
		})
	})

	t.Run("the controllers on the runtime cluster", func(t *testing.T) {
		s := stolen(install.ControllersKubeconfig)
		const configMap = `{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "${schema.spec.a}"}}}`
		tries(t, map[string]attempt{
			"read control tokens": s.listSecrets(metav1.ListOptions{FieldSelector: "metadata.name=" + placement.ControlSecret}),
			"read passwords":      s.readSecret(at, placement.PasswordSecret),
			"make and delete placements": func(ctx context.Context) error {
				return errors.Join(s.namespace(valid, restricted)(ctx), s.deleteNamespace(at)(ctx))
			},
			"open a placement's network":   s.networkPolicy(at),
			"lead requests to a sandbox":   s.route(at, "x-sandbox", "sbx-ab12cd34"),
			"try pods in placements":       s.pod(at, false, true),
			"resize pods in placements":    s.resize(at, pod),
			"ask a runner who it is":       s.proxied(at, pod+":7070", "challenge"),
			"try a network for placements": s.networkPolicy(placement.SystemNamespace),
			"keep a revision's values":     s.configMap(placement.SystemNamespace, "sandbar-platform-0123abcd-0123abcd"),
			"have the canary beat":         s.canary(placement.SystemNamespace, "sandbar-canary"),
			"make graphs":                  s.graph("sandbar.dev", configMap),
			"renew its token":              s.token("sandbar-system/sandbar-controllers", authenticationv1.TokenRequestSpec{}),
			"try networks":                 s.checkPod("open", 300),
			"try DNS":                      s.checkPod("dns", 300),
			"try it under a policy":        s.checkPolicy("dns", "dns"),
			"delete graphs":                s.deleteGraph("sandbox-runner"),
			"list the pods of the cluster": func(ctx context.Context) error {
				_, err := s.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
				return err
			},
		}, map[string]attempt{
			"list all Secrets":                                           s.listSecrets(metav1.ListOptions{}),
			"read the keys of preview links":                             s.readSecret(placement.SystemNamespace, placement.PreviewKeysSecret),
			"make Secrets elsewhere":                                     s.secret("kube-system", placement.ControlSecret),
			"make other Secrets in placements":                           s.secret(at, "other"),
			"try privileged pods in kube-system":                         s.pod("kube-system", true, true),
			"try pods outside of placements":                             s.pod("default", false, true),
			"make pods in placements":                                    s.pod(at, false, false),
			"resize pods elsewhere":                                      s.resize("kube-system", dns),
			"run a command by a runner":                                  s.proxied(at, pod+":7070", "exec"),
			"reach another port of a sandbox":                            s.proxied(at, pod+":3000", "env"),
			"reach pods elsewhere":                                       s.proxied("kube-system", dns+":7070", "env"),
			"list the variables of Sandboxes":                            s.listSecrets(metav1.ListOptions{FieldSelector: "metadata.name=" + placement.BindingSecret}),
			"make privileged pods in placements":                         s.pod(at, true, true),
			"make privileged pods to try networks":                       s.pod("sandbar-netcheck", true, true),
			"change a Namespace of the cluster":                          s.patchNamespace("kube-system", `{"metadata":{"labels":{"a":"b"}}}`),
			"change its own Namespace":                                   s.patchNamespace(placement.SystemNamespace, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
			"relax a placement":                                          s.patchNamespace(at, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
			"take a placement's level away":                              s.patchNamespace(at, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":null}}}`),
			"take an old version of the level":                           s.patchNamespace(at, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce-version":"v1.0"}}}`),
			"make a placement with a lower level":                        s.namespace(valid, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}),
			"make a Namespace that is no placement":                      s.namespace("stolen", restricted),
			"make one that looks like a placement":                       s.namespace("sb-stolen", restricted),
			"delete a Namespace of the cluster":                          s.deleteNamespace("kube-system"),
			"delete a placement of another provider":                     s.deleteNamespace(theirs),
			"take it over":                                               s.patchNamespace(theirs, `{"metadata":{"annotations":{"`+placement.AnnotationProvider+`":"`+s.provider+`"}}}`),
			"open its network":                                           s.networkPolicy(theirs),
			"lead everybody's requests to a sandbox":                     s.route(at, "accept", "text/html"),
			"lead the requests for a host to a sandbox":                  s.route(at, "host", "sbx-ab12cd34"),
			"lead requests from elsewhere":                               s.route("kube-system", "x-sandbox", "sbx-ab12cd34"),
			"lead requests to another provider's sandbox":                s.route(theirs, "x-sandbox", "sbx-ab12cd34"),
			"make its control token":                                     s.secret(theirs, placement.ControlSecret),
			"make a placement in another's name":                         thief{kube: s.kube, dyn: s.dyn, provider: "another"}.namespace(valid, restricted),
			"open another network":                                       s.networkPolicy("kube-system"),
			"open the data plane's network":                              s.openForGood(placement.SystemNamespace),
			"change a revision's values":                                 s.patchConfigMap(placement.SystemNamespace, revisionOf(t, admin)),
			"take the platform's values away":                            s.deleteConfigMap(placement.SystemNamespace, placement.PlatformConfigMap),
			"take another ConfigMap away":                                s.deleteConfigMap(placement.SystemNamespace, "kube-root-ca.crt"),
			"have another canary":                                        s.canary(placement.SystemNamespace, "other"),
			"have a canary elsewhere":                                    s.canary("kube-system", "sandbar-canary"),
			"write the resolver's configuration":                         s.configMap("kube-system", "coredns"),
			"write another ConfigMap of its own":                         s.configMap(placement.SystemNamespace, "other"),
			"write a Lease of the cluster":                               s.lease("kube-system", "kube-scheduler"),
			"have a graph read Secrets":                                  s.graph("sandbar.dev", `{id: a, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: kube-system}}}`),
			"have a graph read Secrets by another name of their version": s.graph("sandbar.dev", `{id: a, externalRef: {apiVersion: /v1, kind: Secret, metadata: {name: a, namespace: kube-system}}}`),
			"have a graph read other kinds":                              s.graph("sandbar.dev", `{id: a, externalRef: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: kube-system}}}`),
			"have a graph make Namespaces":                               s.graph("sandbar.dev", `{id: a, template: {apiVersion: v1, kind: Namespace, metadata: {name: `+valid+`, labels: {pod-security.kubernetes.io/enforce: privileged}}}}`),
			"have a graph make kinds of the cluster":                     s.graph("sandbar.dev", `{id: a, template: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: a}, value: 1}}`),
			"run other pods where networks are tried":                    s.checkPod("other", 300),
			"run pods for long where networks are tried":                 s.checkPod("open", 3600),
			"open networks where they are tried":                         s.checkPolicy("shut", "shut"),
			"close them to a pod that is reached":                        s.checkPolicy("dns", "open"),
			"have a graph give rights":                                   s.graph("sandbar.dev", `{id: a, template: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}}}`),
			"have a graph make graphs":                                   s.graph("sandbar.dev", `{id: a, template: {apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: a}}}`),
			"have a graph say later what it makes":                       s.graph("sandbar.dev", `{id: a, template: {apiVersion: "${schema.spec.a}", kind: ConfigMap, metadata: {name: a}}}`),
			"define kinds of others":                                     s.graph("kro.run", configMap),
			"run commands in sandboxes":                                  s.connect("pods", at, pod, "exec"),
			"take the data plane's identity":                             s.token("sandbar-system/sandbar-serve", authenticationv1.TokenRequestSpec{}),
			"have a token for a year":                                    s.token("sandbar-system/sandbar-controllers", authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(365 * 24 * 3600))}),
			"be cluster-admin":                                           s.clusterAdmin,
			"take the policies away": func(ctx context.Context) error {
				return s.kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "sandbar-controllers", metav1.DeleteOptions{DryRun: inDryRun})
			},
		})
	})

	t.Run("kro", func(t *testing.T) {
		s := steal(t, filepath.Join(world.Stack.Dir, "node", "etc", "kro.kubeconfig"))
		tries(t, map[string]attempt{
			"make what graphs say in placements": s.configMap(at, "a"),
			"make Services in placements":        s.service(at, "stolen", corev1.ServiceSpec{ClusterIP: "None"}),
			"delete kinds with their graphs":     s.deleteKind("sandboxrunners.sandbar.dev"),
			"make the canary's Service":          s.service(placement.SystemNamespace, "sandbar-canary", corev1.ServiceSpec{ClusterIP: "None"}),
		}, map[string]attempt{
			"lead callers to the data plane":      s.service(placement.SystemNamespace, "sandbar-canary", corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"a": "b"}}),
			"take an address":                     s.service(placement.SystemNamespace, "sandbar-canary", corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}}),
			"make another Service there":          s.service(placement.SystemNamespace, "other", corev1.ServiceSpec{ClusterIP: "None"}),
			"write the platform's values":         s.configMap(placement.SystemNamespace, "sandbar-canary"),
			"write elsewhere":                     s.configMap("kube-system", "coredns"),
			"make pods elsewhere":                 s.pod("kube-system", false, true),
			"make privileged pods in placements":  s.pod(at, true, true),
			"make a Namespace like a placement's": s.namespace(valid, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}),
			"relax a placement":                   s.patchNamespace(at, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
			"take an address for a placement":     s.service(at, "stolen", corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}}),
			"open a port of all nodes":            s.service(at, "stolen", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort}),
			"have a load balancer":                s.service(at, "stolen", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}),
			"give another name to a Service":      s.service(at, "stolen", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.test"}),
			"delete graphs":                       s.deleteGraph("sandbox-runner"),
			"make graphs":                         s.graph("sandbar.dev", `{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}`),
			"take the controllers' identity":      s.token("sandbar-system/sandbar-controllers", authenticationv1.TokenRequestSpec{}),
			"be cluster-admin":                    s.clusterAdmin,
		})
	})

	// RBAC lets it do anything, so what is refused, admission refuses.
	t.Run("kro with the rights of its chart's default", func(t *testing.T) {
		cfg := rest.CopyConfig(world.Stack.Runtime())
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kro-system:kro", Groups: []string{"system:masters"}}
		s := thief{kube: kubernetes.NewForConfigOrDie(cfg), dyn: dynamic.NewForConfigOrDie(cfg)}
		privileged := map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}
		tries(t, map[string]attempt{
			"make what graphs say in placements": s.configMap(at, "a"),
		}, map[string]attempt{
			"make a Namespace like a placement's":   s.namespace(valid, privileged),
			"make it at the right level":            s.namespace(valid, restricted),
			"relax a placement":                     s.patchNamespace(at, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
			"delete a placement":                    s.deleteNamespace(at),
			"make a Namespace that is no placement": s.namespace("stolen", privileged),
			"make privileged pods elsewhere":        s.pod("kube-system", true, true),
			"write elsewhere":                       s.configMap("kube-system", "coredns"),
			"be cluster-admin":                      s.clusterAdmin,
		})
	})

	t.Run("the controllers by way of kro", func(t *testing.T) { throughKro(t, stolen(install.ControllersKubeconfig), at) })
	t.Run("in the provider workspace", func(t *testing.T) {
		inKCP(t, tn, box, stolen(install.KCPServeKubeconfig), stolen(install.KCPKubeconfig))
	})
}

// revisionOf is the name of a ConfigMap with a revision's values.
func revisionOf(t *testing.T, admin kubernetes.Interface) string {
	t.Helper()
	list, err := admin.CoreV1().ConfigMaps(placement.SystemNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: placement.LabelRevision})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("there is no revision: %v", err)
	}
	return list.Items[0].Name
}

// throughKro has a thief of the controllers' credential make a graph whose resource lies outside of the
// placement, and an instance of it: kro makes it, with its own rights.
func throughKro(t *testing.T, s thief, at string) {
	admin := kubernetes.NewForConfigOrDie(world.Stack.Runtime())
	graph := graphOf("sandbar.dev", "Stolen", `{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: stolen, namespace: kube-system}, data: {a: "${schema.spec.a}"}}}`)
	if _, err := s.dyn.Resource(graphs).Create(t.Context(), graph, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "stolens"}
	t.Cleanup(func() {
		_ = s.dyn.Resource(kind).Namespace(at).Delete(context.Background(), "a", metav1.DeleteOptions{})
		_ = poll(context.Background(), time.Minute, func() error {
			if _, err := s.dyn.Resource(kind).Namespace(at).Get(context.Background(), "a", metav1.GetOptions{}); err == nil {
				return errors.New("the instance is still there")
			}
			return nil
		})
		_ = s.dyn.Resource(graphs).Delete(context.Background(), "stolen", metav1.DeleteOptions{})
	})
	instance := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "Stolen", "metadata": map[string]any{"name": "a", "namespace": at}, "spec": map[string]any{},
	}}
	eventually(t, "the kind is served", func() error {
		_, err := s.dyn.Resource(kind).Namespace(at).Create(t.Context(), instance, metav1.CreateOptions{})
		return err
	})
	eventually(t, "kro is refused", func() error {
		got, err := s.dyn.Resource(kind).Namespace(at).Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(got.Object["status"]); !strings.Contains(text, "kro writes in placements of Sandbar only") {
			return errors.New(text)
		}
		return nil
	})
	if _, err := admin.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "stolen", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was made: %v", err)
	}
}

// inKCP steals the credentials of the provider workspace.
func inKCP(t *testing.T, tn *tenant, box *instance, serve, controllers thief) {
	slice, err := serve.dyn.Resource(slicesOf).Get(t.Context(), "sandbar.dev", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	endpoints, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
	url, _ := endpoints[0].(map[string]any)["url"].(string)
	// virtual is the virtual workspace of the export, as the thief reaches the tenant's workspace.
	virtual := func(file string) dynamic.NamespaceableResourceInterface {
		cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(world.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Host = url + "/clusters/" + tn.cluster
		return dynamic.NewForConfigOrDie(cfg).Resource(runners)
	}
	objects := virtual(install.KCPServeKubeconfig)
	patch := func(body string, subresources ...string) attempt {
		return func(ctx context.Context) error {
			_, err := objects.Namespace("default").Patch(ctx, box.name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: inDryRun}, subresources...)
			return err
		}
	}
	patchTemplate := func(s thief) attempt {
		return func(ctx context.Context) error {
			_, err := s.dyn.Resource(templates).Patch(ctx, "redis", types.MergePatchType, []byte(`{"spec":{"displayName":"x"}}`), metav1.PatchOptions{DryRun: inDryRun})
			return err
		}
	}
	patchExport := func(s thief) attempt {
		return func(ctx context.Context) error {
			_, err := s.dyn.Resource(exports).Patch(ctx, "sandbar.dev", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{DryRun: inDryRun})
			return err
		}
	}
	t.Run("serve", func(t *testing.T) {
		tries(t, map[string]attempt{
			"read instances":     func(ctx context.Context) error { _, err := objects.List(ctx, metav1.ListOptions{}); return err },
			"void preview links": patch(`{"metadata":{"annotations":{"sandbar.dev/previews-not-before":"2030-01-01T00:00:00Z"}}}`),
			"renew its token":    serve.token("sandbar-system/sandbar-provider-serve", authenticationv1.TokenRequestSpec{}),
		}, map[string]attempt{
			"change an instance":          patch(`{"spec":{"startCommand":"exec evil"}}`),
			"change an instance's labels": patch(`{"metadata":{"labels":{"a":"b"}}}`),
			"write other annotations":     patch(`{"metadata":{"annotations":{"a":"b"}}}`),
			"release an instance":         patch(`{"metadata":{"finalizers":[]}}`),
			"write a status":              patch(`{"status":{"phase":"Ready"}}`, "status"),
			"delete an instance": func(ctx context.Context) error {
				return objects.Namespace("default").Delete(ctx, box.name, metav1.DeleteOptions{DryRun: inDryRun})
			},
			"make an instance": func(ctx context.Context) error {
				obj := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": "stolen"}, "spec": map[string]any{"projectRef": "x"},
				}}
				_, err := objects.Namespace("default").Create(ctx, obj, metav1.CreateOptions{DryRun: inDryRun})
				return err
			},
			"change a Template":              patchTemplate(serve),
			"change the export":              patchExport(serve),
			"read Secrets":                   serve.listSecrets(metav1.ListOptions{}),
			"take the controllers' identity": serve.token("sandbar-system/sandbar-provider", authenticationv1.TokenRequestSpec{}),
			"be cluster-admin":               serve.clusterAdmin,
		})
	})
	t.Run("the controllers", func(t *testing.T) {
		objects = virtual(install.KCPKubeconfig)
		tries(t, map[string]attempt{
			"change instances":  patch(`{"spec":{"startCommand":"exec evil"}}`),
			"change a Template": patchTemplate(controllers),
			"change the export": patchExport(controllers),
			"renew its token":   controllers.token("sandbar-system/sandbar-provider", authenticationv1.TokenRequestSpec{}),
		}, map[string]attempt{
			"read Secrets":                   controllers.listSecrets(metav1.ListOptions{}),
			"take the data plane's identity": controllers.token("sandbar-system/sandbar-provider-serve", authenticationv1.TokenRequestSpec{}),
			"delete a Template": func(ctx context.Context) error {
				return controllers.dyn.Resource(templates).Delete(ctx, "redis", metav1.DeleteOptions{DryRun: inDryRun})
			},
			"be cluster-admin": controllers.clusterAdmin,
		})
	})
}

// TestAnAdministratorDeletesNoKindByMistake has the runtime cluster's administrator delete what kro would
// answer by deleting all instances of a kind. All of it is a dry run.
func TestAnAdministratorDeletesNoKindByMistake(t *testing.T) {
	calm(t)
	cfg := world.Stack.Runtime()
	admin := thief{kube: kubernetes.NewForConfigOrDie(cfg), dyn: dynamic.NewForConfigOrDie(cfg)}
	all := func(resource schema.GroupVersionResource, options metav1.ListOptions) attempt {
		return func(ctx context.Context) error {
			return admin.dyn.Resource(resource).DeleteCollection(ctx, metav1.DeleteOptions{DryRun: inDryRun}, options)
		}
	}
	tries(t, nil, map[string]attempt{
		"delete a graph":           admin.deleteGraph("sandbox-runner"),
		"delete all graphs":        all(graphs, metav1.ListOptions{}),
		"delete a kind":            admin.deleteKind("sandboxrunners.sandbar.dev"),
		"delete all kinds":         all(kinds, metav1.ListOptions{LabelSelector: "kro.run/owned=true"}),
		"delete the kind of graph": admin.deleteKind("resourcegraphdefinitions.kro.run"),
	})
	err := admin.deleteGraph("sandbox-runner")(t.Context())
	for _, want := range []string{"all instances of all tenants", "delete its Template", "kubectl annotate resourcegraphdefinitions sandbox-runner " + placement.AnnotationAllowDeletion + "=true"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not say %q: %v", want, err)
		}
	}
	// Who means it is let through: a graph of the provider's whose kind has no instance.
	name := fmt.Sprintf("mistake%d", time.Now().UnixNano()%1e9)
	graph := graphOf("sandbar.dev", "M"+name[1:], `{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}`)
	graph.SetLabels(map[string]string{placement.LabelManagedBy: placement.ManagedBy})
	if _, err := admin.dyn.Resource(graphs).Create(t.Context(), graph, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tries(t, nil, map[string]attempt{"delete the graph by mistake": admin.deleteGraph(name)})
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, placement.AnnotationAllowDeletion)
	if _, err := admin.dyn.Resource(graphs).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.dyn.Resource(graphs).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("with the annotation: %v", err)
	}
	eventually(t, "the graph and its kind are gone", func() error {
		for resource, object := range map[schema.GroupVersionResource]string{graphs: name, kinds: name + "s.sandbar.dev"} {
			if _, err := admin.dyn.Resource(resource).Get(t.Context(), object, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", object, err)
			}
		}
		return nil
	})
}
