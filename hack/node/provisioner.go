// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is the value of StorageClass.provisioner that this one serves.
const provisionerName = "sandbar.dev/local-directory"

// provisionWorkers bounds the volumes made or removed at the same time. A
// volume costs one mkdir and two API calls, so more would only wait.
const provisionWorkers = 16

// directories makes each volume a directory below root. The node has one
// machine only, so a hostPath volume is local by nature and needs no affinity;
// capacity is recorded and not enforced.
type directories struct{ root string }

func (d directories) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(d.root, options.PVName)
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("creating volume %s: %w", options.PVName, err)
	}
	// MkdirAll is subject to the umask, and pods write as users of their own.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("opening volume %s to its pods: %w", options.PVName, err)
	}
	directory := corev1.HostPathDirectory
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &directory},
			},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes the directory named by the volume, not the path it records:
// whoever can edit a PersistentVolume must not be able to have any other
// directory of the machine removed.
func (d directories) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	if err := os.RemoveAll(filepath.Join(d.root, filepath.Base(volume.Name))); err != nil {
		return fmt.Errorf("removing volume %s: %w", volume.Name, err)
	}
	return nil
}

func newProvisionerCommand() *cobra.Command {
	var kubeconfig, root string
	command := &cobra.Command{
		Use:   "provisioner",
		Short: "serve PersistentVolumeClaims with directories of this machine",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return provision(command.Context(), kubeconfig, root)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the cluster to serve")
	command.Flags().StringVar(&root, "root", "", "directory that holds the volumes")
	return command
}

func provision(ctx context.Context, kubeconfig, root string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if ctx == nil {
		ctx = context.Background()
	}
	controller.NewProvisionController(ctx, client, provisionerName, directories{root},
		controller.LeaderElection(false),
		controller.Threadiness(provisionWorkers),
	).Run(ctx)
	return nil
}
