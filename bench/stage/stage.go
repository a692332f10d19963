// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package stage sets up what the benchmarks of the data plane need on the local stack: a tenant,
// a sandbox that runs bench/pod, and a serve process of its own.
package stage

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sandbar-dev/sandbar/apis/builtin"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

var (
	providers        = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "infrastructureproviders"}
	runners          = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxrunners"}
	sandboxes        = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "sandboxes"}
	sandboxTemplates = builtin.Of("SandboxTemplate").GVR()
	sandboxSets      = builtin.Of("SandboxSet").GVR()
	sandboxClaims    = builtin.Of("SandboxClaim").GVR()
	workspaces       = schema.GroupVersionResource{Group: "tenancy.kcp.io", Version: "v1alpha1", Resource: "workspaces"}
	bindings         = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}
)

const (
	// user is whose workspace it is, box the name of the sandbox.
	user = "alice"
	box  = "bench"
)

// Tenant is a workspace with the API bound and a person who is cluster-admin in it.
type Tenant struct {
	// Path is the workspace's path, Token the person's bearer token.
	Path, Token string
	// Config is the person's, for the workspace.
	Config *rest.Config
	// Runners and Sandboxes are the workspace's, as the person; so are Templates, Sets and Claims, of Sandboxes.
	Runners, Sandboxes, Templates, Sets, Claims dynamic.ResourceInterface

	root dynamic.Interface
	name string
}

// NewTenant makes a workspace and binds the API there.
func NewTenant(ctx context.Context, stack *local.Stack) (*Tenant, error) {
	root := dynamic.NewForConfigOrDie(stack.KCPAdmin("root"))
	b := make([]byte, 4)
	_, _ = rand.Read(b)
	t := &Tenant{name: "bench-" + hex.EncodeToString(b), root: root, Token: stack.Token(user)}
	t.Path = "root:" + t.name
	if err := create(ctx, root.Resource(workspaces), "tenancy.kcp.io/v1alpha1", "Workspace", t.name, nil); err != nil {
		return nil, err
	}
	admin := kubernetes.NewForConfigOrDie(stack.KCPAdmin(t.Path))
	t.Config = stack.KCPUser(user, t.Path)
	dyn := dynamic.NewForConfigOrDie(t.Config)
	t.Runners = dyn.Resource(runners).Namespace("default")
	t.Sandboxes = dyn.Resource(sandboxes).Namespace("default")
	t.Templates = dyn.Resource(sandboxTemplates).Namespace("default")
	t.Sets = dyn.Resource(sandboxSets).Namespace("default")
	t.Claims = dyn.Resource(sandboxClaims).Namespace("default")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	export := map[string]any{"reference": map[string]any{"export": map[string]any{"path": "root:sandbar", "name": "sandbar.dev"}}}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
			return err
		},
		func(ctx context.Context) error {
			return create(ctx, dyn.Resource(bindings), "apis.kcp.io/v1alpha2", "APIBinding", "sandbar.dev", export)
		},
		func(ctx context.Context) error {
			_, err := t.Runners.List(ctx, metav1.ListOptions{})
			return err
		},
		func(ctx context.Context) error {
			_, err := t.Sandboxes.List(ctx, metav1.ListOptions{})
			return err
		},
	} {
		if err := Insist(ctx, step); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing workspace %s: %w", t.Path, err), t.Close())
		}
	}
	return t, nil
}

// Close deletes the workspace and all that is in it.
func (t *Tenant) Close() error {
	return t.root.Resource(workspaces).Delete(context.Background(), t.name, metav1.DeleteOptions{})
}

// Insist tries a step until it holds: a new workspace serves its APIs a moment after it exists.
func Insist(ctx context.Context, step func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = step(ctx)
		return last == nil || apierrors.IsAlreadyExists(last), nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func create(ctx context.Context, objects dynamic.ResourceInterface, apiVersion, kind, name string, spec map[string]any) error {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name},
	}}
	if spec != nil {
		obj.Object["spec"] = spec
	}
	_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
	return err
}

// Stage is a tenant's sandbox with bench/pod in it, and a data plane in plain HTTP on loopback.
type Stage struct {
	Stack  *local.Stack
	Tenant *Tenant
	// Replica is the data plane's process.
	Replica *local.Replica
	// Other is the data plane of another build, for comparison; nil unless StartOther was called.
	Other *local.Replica
	// Proxy is the path of the sandbox's verb proxy on the data plane.
	Proxy string
	// Pod is the pod's address, host:port; Namespace is where it runs.
	Pod, Namespace string

	provider *local.Provider
	args     []string
}

// New starts the provider, makes the sandbox and starts a data plane with further arguments.
// The limits are raised meanwhile, for the benchmarks ask what it can do.
func New(ctx context.Context, name string, args ...string) (*Stage, error) {
	stack, err := local.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &Stage{Stack: stack, args: append([]string{
		"--insecure", "--tls-cert-file=", "--tls-key-file=", "--transport=direct",
	}, args...)}
	if s.provider, err = stack.StartProvider(ctx, local.ProviderOptions{Log: os.Stderr}); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stage) prepare(ctx context.Context) (err error) {
	if err := s.limits(ctx, raised); err != nil {
		return err
	}
	if s.Replica, err = s.provider.StartReplica(ctx, s.args...); err != nil {
		return err
	}
	if s.Tenant, err = NewTenant(ctx, s.Stack); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "making a sandbox")
	spec := map[string]any{"projectRef": "bench", "startCommand": "exec ./pod"}
	if err := Insist(ctx, func(ctx context.Context) error {
		return create(ctx, s.Tenant.Runners, "sandbar.dev/v1alpha1", "SandboxRunner", box, spec)
	}); err != nil {
		return fmt.Errorf("making the sandbox: %w", err)
	}
	base := "/dataplane/clusters/" + s.Tenant.Path + "/sandboxrunners/" + box
	s.Proxy = base + "/proxy"
	body, err := s.sync(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return s.call(ctx, http.MethodPost, base+"/sync", body) },
		func(ctx context.Context) error { return s.call(ctx, http.MethodGet, s.Proxy+"/bytes/1", "") },
		s.locate,
	} {
		if err := Insist(ctx, step); err != nil {
			return fmt.Errorf("preparing the sandbox: %w", err)
		}
	}
	return nil
}

// raised are limits that no benchmark meets.
var raised = map[string]any{
	"workspaceRate": 1000000, "workspaceBurst": 1000000, "instanceRate": 1000000, "instanceBurst": 1000000, "workspaceStreams": 20000, "instanceStreams": 20000,
	"connections": 30000, "connectionsPerAddress": 30000,
}

// limits sets the provider's limits; nil puts the defaults back.
func (s *Stage) limits(ctx context.Context, limits map[string]any) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"limits": limits}})
	if err != nil {
		return err
	}
	objects := dynamic.NewForConfigOrDie(s.Stack.KCPAdmin("root:sandbar")).Resource(providers)
	if _, err := objects.Patch(ctx, "default", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("setting the provider's limits: %w", err)
	}
	return nil
}

// PodBinary is where bench/pod lies when it is built.
func (s *Stage) PodBinary() string { return filepath.Join(s.Stack.Dir, "bench-pod") }

// sync is the body of the sync verb that puts bench/pod into the sandbox and starts it.
func (s *Stage) sync(ctx context.Context) (string, error) {
	binary := s.PodBinary()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./bench/pod")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building bench/pod: %w\n%s", err, out)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return "", fmt.Errorf("reading bench/pod: %w", err)
	}
	body, err := json.Marshal(map[string]any{
		"files":   []map[string]any{{"path": "pod", "content": base64.StdEncoding.EncodeToString(data), "encoding": "base64", "executable": true}},
		"restart": "always",
	})
	return string(body), err
}

func (s *Stage) call(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, s.Replica.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.Tenant.Token)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) //nolint:forbidigo // 4 KiB
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, said)
	}
	return nil
}

// locate finds the pod's address on the runtime cluster.
func (s *Stage) locate(ctx context.Context) error {
	obj, err := s.Tenant.Runners.Get(ctx, box, metav1.GetOptions{})
	if err != nil {
		return err
	}
	cluster := obj.GetAnnotations()["kcp.io/cluster"]
	s.Namespace = placement.ID{Origin: cluster, UID: obj.GetUID()}.Namespace()
	kube := kubernetes.NewForConfigOrDie(s.Stack.Runtime())
	slices, err := kube.DiscoveryV1().EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=preview"})
	if err != nil {
		return err
	}
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && len(slice.Ports) > 0 {
				s.Pod = fmt.Sprintf("%s:%d", e.Addresses[0], *slice.Ports[0].Port)
				return nil
			}
		}
	}
	return errors.New("the preview has no endpoint yet")
}

// StartOther starts a data plane of another build of sandbar-provider beside the one of this checkout,
// with the same arguments but for the audit log, which has one writer.
func (s *Stage) StartOther(ctx context.Context, binary string, args ...string) (err error) {
	s.Other, err = s.provider.StartReplicaOf(ctx, binary, "other", append(slices.Clone(s.args), args...)...)
	return err
}

// Close ends the data planes and the provider and deletes the tenant.
func (s *Stage) Close() error {
	var errs []error
	if s.Replica != nil {
		errs = append(errs, s.Replica.Stop())
	}
	if s.Other != nil {
		errs = append(errs, s.Other.Stop())
	}
	if s.Tenant != nil {
		errs = append(errs, s.Tenant.Close())
	}
	return errors.Join(append(errs, s.limits(context.Background(), nil), s.provider.Stop())...)
}
