// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package runtimecluster

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbar-dev/sandbar/pkg/placement"
)

// patience is how long the cache may take to see what was written.
const patience = 30 * time.Second

func TestTheCacheSeesWhatSandbarMadeAndNothingElse(t *testing.T) {
	path := os.Getenv("STACK_RUNTIME_KUBECONFIG")
	if path == "" {
		t.Fatal("STACK_RUNTIME_KUBECONFIG is not set: run `make test-integration`")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := New(config, placement.Names{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cluster.Start(t.Context()) }()
	if !cluster.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache did not start")
	}

	ns := &corev1.Namespace{}
	ns.GenerateName = "runtimecluster-test-"
	mustDo(t, cluster.GetClient().Create(t.Context(), ns))
	t.Cleanup(func() { _ = cluster.GetClient().Delete(context.Background(), ns) })
	secret := func(name string, labels map[string]string) *corev1.Secret {
		s := &corev1.Secret{}
		s.Name, s.Namespace, s.Labels = name, ns.Name, labels
		mustDo(t, cluster.GetClient().Create(t.Context(), s))
		return s
	}
	label := map[string]string{placement.LabelInstanceUID: "an-instance"}
	foreign := secret("foreign", label)
	ours := secret(placement.ControlSecret, label)

	got := &corev1.Secret{}
	eventually(t, func() error { return cluster.GetClient().Get(t.Context(), client.ObjectKeyFromObject(ours), got) })
	if got.ManagedFields != nil {
		t.Error("the cache keeps managed fields")
	}
	// Both were written before the cache was asked, the foreign one first.
	err = cluster.GetClient().Get(t.Context(), client.ObjectKeyFromObject(foreign), got)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the cache sees a Secret of another name: %v", err)
	}
	mustDo(t, cluster.GetAPIReader().Get(t.Context(), client.ObjectKeyFromObject(foreign), got))

	crd := &apiextensionsv1.CustomResourceDefinition{}
	err = cluster.GetClient().Get(t.Context(), types.NamespacedName{Name: "resourcegraphdefinitions.kro.run"}, crd)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the cache sees a CRD that kro did not make: %v", err)
	}

	configMap := &corev1.ConfigMap{}
	err = cluster.GetClient().Get(t.Context(), types.NamespacedName{Namespace: "kube-system", Name: "kube-root-ca.crt"}, configMap)
	if err == nil {
		t.Error("the cache sees a ConfigMap of another namespace")
	}
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(errors.Join(errors.New("waited in vain"), err))
		}
		<-time.After(20 * time.Millisecond)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
