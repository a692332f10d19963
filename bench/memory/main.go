// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command memory measures the memory of a serve process: at rest, per idle stream, and per thousand
// instances. What is resident holds garbage too, and more of it than of anything else while little
// lives; so what a stream and an instance cost is reckoned from what lives after a collection. The
// instances are their objects on the runtime cluster alone, made straight there and removed again;
// nothing runs in them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/sandbar-dev/sandbar/bench/report"
	"github.com/sandbar-dev/sandbar/bench/stage"
	"github.com/sandbar-dev/sandbar/pkg/placement"
)

func main() {
	streams := flag.Int("streams", 1000, "how many idle streams")
	instances := flag.Int("instances", 1000, "how many instances")
	stage.Main("memory", func(ctx context.Context, stack, results string) error {
		return run(ctx, stack, results, *streams, *instances)
	})
}

func run(ctx context.Context, stack, results string, streams, instances int) error {
	s, err := stage.New(ctx, stack)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	idle, err := look(ctx, s)
	if err != nil {
		return err
	}
	kube := kubernetes.NewForConfigOrDie(s.Stack.Runtime())
	err = populate(ctx, kube, instances)
	defer func() { _ = remove(kube, instances) }()
	if err != nil {
		return err
	}
	populated, err := look(ctx, s)
	if err != nil {
		return err
	}
	closeAll, err := s.Idle(ctx, streams)
	if err != nil {
		return err
	}
	streaming, err := look(ctx, s)
	closeAll()
	if err != nil {
		return err
	}
	samples := map[string][]float64{
		"resident/mib": {idle.resident, populated.resident, streaming.resident},
		"live/mib":     {idle.live, populated.live, streaming.live},
	}
	return report.Write(os.Stdout, results, "memory", samples, report.Line{Name: "memory", Fields: []report.Field{
		{Key: "idle_mib", Value: idle.resident},
		{Key: "idle_live_mib", Value: idle.live},
		{Key: "per_stream_kib", Value: (streaming.live - populated.live) * 1024 / float64(streams)},
		{Key: "per_1000_instances_mib", Value: (populated.live - idle.live) * 1000 / float64(instances)},
		{Key: "full_mib", Value: streaming.resident},
		{Key: "streams", Value: streams},
		{Key: "instances", Value: instances},
	}})
}

// memory is of the data plane, in MiB.
type memory struct{ resident, live float64 }

func look(ctx context.Context, s *stage.Stage) (memory, error) {
	resident, err := s.RSS(ctx)
	if err != nil {
		return memory{}, err
	}
	live, err := s.Replica.Live(ctx)
	return memory{resident: resident, live: live / (1 << 20)}, err
}

// parallel bounds the requests under way to the API server.
const parallel = 8

func id(i int) placement.ID {
	return placement.ID{Origin: "bench-memory", UID: types.UID(fmt.Sprintf("bench-%d", i))}
}

// populate makes what an instance has on the runtime cluster and the data plane keeps.
func populate(ctx context.Context, kube kubernetes.Interface, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error { return place(ctx, kube, id(i), fmt.Sprintf("bench-%d", i)) })
	}
	return group.Wait()
}

func place(ctx context.Context, kube kubernetes.Interface, id placement.ID, name string) error {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: id.Namespace(), Labels: id.Labels("bench")}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: id.Namespace(), Labels: id.Labels("bench"),
		Annotations: map[string]string{placement.AnnotationInstanceNamespace: "default", placement.AnnotationInstanceName: name},
	}}
	if _, err := kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making an instance: %w", err)
	}
	secret := &corev1.Secret{ObjectMeta: meta(placement.ControlSecret), StringData: map[string]string{placement.ControlTokenKey: "0123456789abcdef0123456789abcdef"}}
	if _, err := kube.CoreV1().Secrets(id.Namespace()).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making an instance: %w", err)
	}
	for _, port := range []string{"control", "preview"} {
		service := &corev1.Service{ObjectMeta: meta(port), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: port, Port: 80}}}}
		if _, err := kube.CoreV1().Services(id.Namespace()).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making an instance: %w", err)
		}
		number, tcp := int32(3000), corev1.ProtocolTCP
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: meta(port), AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.255.0.1"}}},
			Ports:     []discoveryv1.EndpointPort{{Name: &port, Port: &number, Protocol: &tcp}},
		}
		slice.Labels[discoveryv1.LabelServiceName] = port
		if _, err := kube.DiscoveryV1().EndpointSlices(id.Namespace()).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making an instance: %w", err)
		}
	}
	return nil
}

func remove(kube kubernetes.Interface, n int) error {
	errs := make([]error, n)
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range n {
		group.Go(func() error {
			errs[i] = kube.CoreV1().Namespaces().Delete(context.Background(), id(i).Namespace(), metav1.DeleteOptions{})
			return nil
		})
	}
	return errors.Join(group.Wait(), errors.Join(errs...))
}
