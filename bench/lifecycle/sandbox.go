// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	sandbarv1alpha1 "github.com/sandbar-dev/sandbar/apis/v1alpha1"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/hack/local"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

const (
	// box is the name of the instance that is measured.
	box = "bench"
	// app answers requests and ends at once when it is asked to.
	app = `exec node -e 'process.on("SIGTERM",()=>process.exit(0));require("http").createServer((q,s)=>s.end("awake")).listen(3000)'`
	// oneTimeout bounds a single change; a run that meets it has failed.
	oneTimeout = 3 * time.Minute
	// asleepFor is how long ago the last use of an instance is put that is to sleep: more than
	// its sleepAfterUnused and the interval in which use is written.
	asleepFor = 5 * time.Minute
)

// sandbox is the instance that is measured.
type sandbox struct {
	objects   dynamic.ResourceInterface // the tenant's
	kube      kubernetes.Interface      // of the runtime cluster
	namespace string
	url       string
	token     string
	client    *http.Client
}

func newSandbox(ctx context.Context, stack *local.Stack, provider *local.Provider, tenant *stage.Tenant) (*sandbox, error) {
	b := &sandbox{
		objects: tenant.Runners, token: tenant.Token,
		kube: kubernetes.NewForConfigOrDie(stack.Runtime()),
		url:  provider.URL + "/dataplane/clusters/" + tenant.Path + "/sandboxrunners/" + box + "/proxy/",
		client: &http.Client{Timeout: oneTimeout, Transport: &http.Transport{
			TLSClientConfig: provider.TLS(), ForceAttemptHTTP2: false, MaxIdleConnsPerHost: 256,
		}},
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sandbar.dev/v1alpha1", "kind": "SandboxRunner", "metadata": map[string]any{"name": box},
		"spec": map[string]any{"projectRef": "bench", "startCommand": app, "lifecycle": map[string]any{"sleepAfterUnused": "1m"}},
	}}
	var made *unstructured.Unstructured
	if err := stage.Insist(ctx, func(ctx context.Context) (err error) {
		made, err = b.objects.Create(ctx, obj, metav1.CreateOptions{})
		return err
	}); err != nil {
		return nil, fmt.Errorf("making the sandbox: %w", err)
	}
	b.namespace = placement.ID{Origin: made.GetAnnotations()["kcp.io/cluster"], UID: made.GetUID()}.Namespace()
	return b, stage.Insist(ctx, b.call)
}

// call is nil when the app has answered.
func (b *sandbox) call(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	res, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, 4<<10)) //nolint:forbidigo // 4 KiB
	if err == nil && (res.StatusCode != http.StatusOK || string(said) != "awake") {
		err = fmt.Errorf("the app answers %d %q", res.StatusCode, said)
	}
	return err
}

// cycle suspends and resumes the instance and returns how long it took to have no pods and to be
// Ready again.
func (b *sandbox) cycle(ctx context.Context) (suspended, resumed time.Duration, err error) {
	if suspended, err = b.suspend(ctx); err != nil {
		return 0, 0, fmt.Errorf("suspending: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, oneTimeout)
	defer cancel()
	events, err := b.objects.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", box).String()})
	if err != nil {
		return 0, 0, fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	start := time.Now()
	generation, err := b.set(ctx, false)
	if err == nil {
		err = until(ctx, events, func(e watch.Event) bool { return ready(e.Object, generation) })
	}
	if err != nil {
		return 0, 0, fmt.Errorf("resuming: %w", err)
	}
	return suspended, time.Since(start), nil
}

func (b *sandbox) suspend(ctx context.Context) (time.Duration, error) {
	return untilNoPods(ctx, b.kube, b.namespace, func(ctx context.Context) error {
		_, err := b.set(ctx, true)
		return err
	})
}

func (b *sandbox) set(ctx context.Context, suspended bool) (generation int64, err error) {
	patch := fmt.Appendf(nil, `{"spec":{"suspended":%v}}`, suspended)
	obj, err := b.objects.Patch(ctx, box, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("writing suspended=%v: %w", suspended, err)
	}
	return obj.GetGeneration(), nil
}

// wake lets the instance fall asleep and calls it from many callers at once.
func (b *sandbox) wake(ctx context.Context, callers int) (took []time.Duration, lost int, err error) {
	if _, err := untilNoPods(ctx, b.kube, b.namespace, b.age); err != nil {
		return nil, 0, fmt.Errorf("falling asleep: %w", err)
	}
	// Its phase says that the data plane may know, too.
	if err := stage.Insist(ctx, b.sleeping); err != nil {
		return nil, 0, err
	}
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for range callers {
		wait.Go(func() {
			start := time.Now()
			err := b.call(ctx)
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, time.Since(start)); err != nil {
				errs = append(errs, err)
			}
		})
	}
	wait.Wait()
	if len(errs) == callers {
		return nil, 0, fmt.Errorf("nobody woke it: %w", errs[0])
	}
	return took, len(errs), nil
}

// age makes the instance unused, as if the time had passed.
func (b *sandbox) age(ctx context.Context) error {
	return age(ctx, b.kube, b.namespace)
}

func age(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"renewTime": metav1.NewMicroTime(time.Now().Add(-asleepFor))}})
	if err != nil {
		return err
	}
	_, err = kube.CoordinationV1().Leases(namespace).Patch(ctx, placement.ActivityLease, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("making the instance unused: %w", err)
	}
	return nil
}

func (b *sandbox) sleeping(ctx context.Context) error {
	obj, err := b.objects.Get(ctx, box, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != string(sandbarv1alpha1.InstanceSleeping) {
		return fmt.Errorf("its phase is %s", phase)
	}
	return nil
}

// until reads events until done; it fails when the watch ends before.
func until(ctx context.Context, events watch.Interface, done func(watch.Event) bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-events.ResultChan():
			if !ok {
				return errors.New("the watch ended")
			}
			if done(e) {
				return nil
			}
		}
	}
}

// ready tells whether an instance is Ready with its present spec.
func ready(obj any, generation int64) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == sandbarv1alpha1.InstanceReadyCondition {
			return m["status"] == "True" && m["observedGeneration"] == generation
		}
	}
	return false
}
