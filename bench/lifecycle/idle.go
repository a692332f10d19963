// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/pause"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// idleTemplate is a kind without pods: what is measured is what the provider keeps of an instance.
const idleTemplate = `
apiVersion: sandbar.dev/v1alpha1
kind: Template
metadata: {name: bench-idle}
spec:
  displayName: Idle
  version: 0.1.0
  graph:
    schema:
      apiVersion: v1alpha1
      kind: BenchIdle
      group: sandbar.dev
      spec:
        suspended: boolean | default=false
      status:
        noteRef: {name: '${note.metadata.name}', namespace: '${note.metadata.namespace}'}
    resources:
    - id: note
      template:
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: note
          labels: {sandbar.dev/instance-uid: '${schema.metadata.labels["sandbar.dev/instance-uid"]}'}
        data: {text: idle}
  dataPlane:
    endpoints:
      status: {from: instanceStatus}
`

const (
	idleName = "bench-idle"
	// parallel bounds the requests under way to the API servers.
	parallel = 8
	// rest is how long instances at rest are looked at.
	rest = time.Minute
)

var (
	idles     = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "benchidles"}
	templates = schema.GroupVersionResource{Group: "sandbar.dev", Version: "v1alpha1", Resource: "templates"}
)

// idleCost is what one sleeping instance costs the provider's process, controllers and data plane
// together, in resident memory and in what of it lives, and how often all of them are reconciled within a minute.
type idleCost struct {
	kib        float64
	liveKiB    float64
	reconciles float64
}

func measureIdle(ctx context.Context, stack *local.Stack, provider *local.Provider, tenant *stage.Tenant, n int) (idleCost, error) {
	if n == 0 {
		return idleCost{}, nil
	}
	kinds := dynamic.NewForConfigOrDie(stack.KCPAdmin(provider.Workspace)).Resource(templates)
	var tmpl unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(idleTemplate), &tmpl.Object); err != nil {
		return idleCost{}, err
	}
	if _, err := kinds.Create(ctx, &tmpl, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return idleCost{}, fmt.Errorf("making a Template: %w", err)
	}
	// It goes when its last instance has gone with the workspace.
	defer func() { _ = kinds.Delete(context.Background(), idleName, metav1.DeleteOptions{}) }()
	objects := dynamic.NewForConfigOrDie(stack.KCPUser("alice", tenant.Path)).Resource(idles).Namespace("default")
	if err := stage.Insist(ctx, func(ctx context.Context) error {
		_, err := objects.List(ctx, metav1.ListOptions{})
		return err
	}); err != nil {
		return idleCost{}, fmt.Errorf("waiting for the kind: %w", err)
	}
	before, liveBefore, err := settled(ctx, provider)
	if err != nil {
		return idleCost{}, err
	}
	fmt.Fprintf(os.Stderr, "making %d instances and letting them sleep\n", n)
	if err := populate(ctx, objects, kubernetes.NewForConfigOrDie(stack.Runtime()), n); err != nil {
		return idleCost{}, err
	}
	after, liveAfter, err := settled(ctx, provider)
	if err != nil {
		return idleCost{}, err
	}
	reconciles, err := atRest(ctx, provider)
	return idleCost{
		kib: (after - before) * 1024 / float64(n), liveKiB: (liveAfter - liveBefore) / 1024 / float64(n), reconciles: reconciles,
	}, err
}

func populate(ctx context.Context, objects dynamic.ResourceInterface, kube kubernetes.Interface, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error {
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "sandbar.dev/v1alpha1", "kind": "BenchIdle", "metadata": map[string]any{"name": fmt.Sprintf("idle-%d", i)},
				"spec": map[string]any{"lifecycle": map[string]any{"sleepAfterUnused": "1m"}},
			}}
			made, err := objects.Create(ctx, obj, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("making an instance: %w", err)
			}
			namespace := placement.ID{Origin: made.GetAnnotations()["kcp.io/cluster"], UID: made.GetUID()}.Namespace()
			if err := stage.Insist(ctx, func(ctx context.Context) error { return age(ctx, kube, namespace) }); err != nil {
				return err
			}
			return stage.Insist(ctx, func(ctx context.Context) error { return suspended(ctx, objects, obj.GetName()) })
		})
	}
	return group.Wait()
}

var errAwake = errors.New("the instance does not sleep yet")

func suspended(ctx context.Context, objects dynamic.ResourceInterface, name string) error {
	obj, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if cause, _, _ := unstructured.NestedString(obj.Object, "status", "suspension", "cause"); cause != "Unused" {
		return errAwake
	}
	return nil
}

// settled is the resident memory of the provider in MiB, the least of some samples, after what was
// only in passing has gone; and then what lives in it, in bytes.
func settled(ctx context.Context, provider *local.Provider) (resident, live float64, err error) {
	for i := range 15 {
		if err := pause.For(ctx, time.Second); err != nil {
			return 0, 0, err
		}
		now, err := stage.Memory(provider.PID(), "VmRSS")
		if err != nil {
			return 0, 0, err
		}
		if i == 0 || now < resident {
			resident = now
		}
	}
	live, err = provider.Live(ctx)
	return resident, live, err
}

// atRest counts the reconciles of the sleeping instances within a minute.
func atRest(ctx context.Context, provider *local.Provider) (float64, error) {
	before, err := reconciles(ctx, provider)
	if err != nil {
		return 0, err
	}
	if err := pause.For(ctx, rest); err != nil {
		return 0, err
	}
	after, err := reconciles(ctx, provider)
	return after - before, err
}

func reconciles(ctx context.Context, provider *local.Provider) (float64, error) {
	metrics, err := provider.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	total := 0.0
	for lines := bufio.NewScanner(strings.NewReader(metrics)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "sandbar_instance_reconciles_total{") && strings.Contains(name, `template="`+idleName+`"`) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the metrics: %w", err)
			}
			total += n
		}
	}
	return total, nil
}
