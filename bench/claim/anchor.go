// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/bench/rival"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// anchor is what claims are compared with: the controllers of Kubernetes' agent-sandbox, of the version that the module
// hack/agentsandbox names, on the API server of the runtime cluster and with their defaults, but for the webhook, which
// converts between versions of the API of which one is used here. It keeps a SandboxWarmPool of the same pod and size.
type anchor struct {
	controllers    rival.Group
	kube           kubernetes.Interface
	dyn            dynamic.Interface
	pools, claims  dynamic.ResourceInterface
	folder, binary string
}

const (
	anchorModule    = "sigs.k8s.io/agent-sandbox"
	anchorNamespace = "bench-agent-sandbox"
	anchorAPI       = "extensions.agents.x-k8s.io/v1beta1"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// startAnchor builds the controllers, starts them and waits until the pool is full.
func startAnchor(ctx context.Context, stack *local.Stack, members int) (a *anchor, err error) {
	config := stack.Runtime()
	a = &anchor{kube: kubernetes.NewForConfigOrDie(config), dyn: dynamic.NewForConfigOrDie(config)}
	of := func(resource string) dynamic.ResourceInterface {
		return a.dyn.Resource(schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: resource}).Namespace(anchorNamespace)
	}
	a.pools, a.claims = of("sandboxwarmpools"), of("sandboxclaims")
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("preparing agent-sandbox: %w", err), a.close())
		}
	}()
	if err := a.build(ctx, stack.Dir); err != nil {
		return a, err
	}
	if err := a.define(ctx); err != nil {
		return a, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: anchorNamespace}}
	if _, err := a.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return a, err
	}
	if err := a.controllers.Start(agentSandbox, exec.CommandContext(context.WithoutCancel(ctx), a.binary,
		"--kubeconfig", stack.Kubeconfig("runtime-admin"), "--extensions", "--leader-elect=false", "--enable-webhook=false",
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--zap-log-level", "error")); err != nil {
		return a, err
	}
	template := anchorObject("SandboxTemplate", pool, map[string]any{"service": false, "podTemplate": map[string]any{"spec": podSpec()}})
	warmPool := anchorObject("SandboxWarmPool", pool, map[string]any{"replicas": int64(members), "sandboxTemplateRef": map[string]any{"name": pool}})
	for objects, obj := range map[dynamic.ResourceInterface]*unstructured.Unstructured{of("sandboxtemplates"): template, a.pools: warmPool} {
		if err := stage.Insist(ctx, func(ctx context.Context) error {
			_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
			return err
		}); err != nil {
			return a, err
		}
	}
	return a, a.waitFull(ctx, members)
}

func anchorObject(kind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": anchorAPI, "kind": kind, "spec": spec}}
	obj.SetName(name)
	return obj
}

// build builds the controllers; the module's folder has the definitions of their kinds.
func (a *anchor) build(ctx context.Context, dir string) error {
	in := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "go", append([]string{"-C", "hack/agentsandbox"}, args...)...)
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, complaints.Bytes())
		}
		return out, nil
	}
	a.binary = filepath.Join(dir, "agent-sandbox-controller")
	fmt.Fprintln(os.Stderr, "building", anchorModule)
	if _, err := in("build", "-trimpath", "-o", a.binary, anchorModule+"/cmd/agent-sandbox-controller"); err != nil {
		return err
	}
	folder, err := in("list", "-m", "-f", "{{.Dir}}", anchorModule)
	a.folder = strings.TrimSpace(string(folder))
	return err
}

// define creates the definitions of the kinds, without the webhook that converts.
func (a *anchor) define(ctx context.Context) error {
	return a.eachDefinition(func(definition *unstructured.Unstructured) error {
		unstructured.RemoveNestedField(definition.Object, "spec", "conversion")
		if _, err := a.dyn.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating %s: %w", definition.GetName(), err)
		}
		return stage.Insist(ctx, func(ctx context.Context) error { // the controllers end if they are not served yet
			is, err := a.dyn.Resource(definitions).Get(ctx, definition.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(is.Object, "status", "conditions")
			for _, c := range conditions {
				if condition, _ := c.(map[string]any); condition["type"] == "Established" && condition["status"] == "True" {
					return nil
				}
			}
			return fmt.Errorf("%s is not served yet", definition.GetName())
		})
	})
}

func (a *anchor) eachDefinition(do func(*unstructured.Unstructured) error) error {
	files, err := filepath.Glob(filepath.Join(a.folder, "k8s", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there are no definitions of kinds in %q: %w", a.folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if err := do(definition); err != nil {
			return err
		}
	}
	return nil
}

// waitFull waits until the pool has as many sandboxes as it should that are ready.
func (a *anchor) waitFull(ctx context.Context, members int) error {
	return stage.Insist(ctx, func(ctx context.Context) error {
		pool, err := a.pools.Get(ctx, pool, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(pool.Object, "status", "readyReplicas"); n != int64(members) {
			return fmt.Errorf("agent-sandbox's pool has %d of %d", n, members)
		}
		return nil
	})
}

// measure makes a claim and returns the time until it is Ready. It is deleted once meanwhile returns, and with it its sandbox.
func (a *anchor) measure(ctx context.Context, name string, meanwhile func()) (time.Duration, error) {
	claim := anchorObject("SandboxClaim", name, map[string]any{"warmPoolRef": map[string]any{"name": pool}})
	took, err := stage.WayToReady(ctx, a.claims, claim, func(*unstructured.Unstructured) error {
		meanwhile()
		return nil
	})
	return took.Ready, err
}

// close removes the pool with all claims, ends the controllers and removes what they were installed with.
func (a *anchor) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var failed []error
	if err := a.kube.CoreV1().Namespaces().Delete(ctx, anchorNamespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		failed = append(failed, err)
	} else {
		failed = append(failed, stage.Insist(ctx, func(ctx context.Context) error {
			_, err := a.kube.CoreV1().Namespaces().Get(ctx, anchorNamespace, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("namespace %s is still there: %w", anchorNamespace, err)
		}))
	}
	a.controllers.Stop() // not before: their finalizers are theirs to take off
	if a.folder != "" {
		failed = append(failed, a.eachDefinition(func(definition *unstructured.Unstructured) error {
			err := a.dyn.Resource(definitions).Delete(ctx, definition.GetName(), metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}))
	}
	return errors.Join(failed...)
}
