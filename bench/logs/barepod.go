// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/sandbar-dev/sandbar/bench/stage"
)

// barePod is a pod without a runner, so that bench/pod writes what the runtime cluster keeps as
// the pod's log.
type barePod struct {
	kube      kubernetes.Interface
	config    *rest.Config
	name      string
	namespace string
	address   string
}

// port is where bench/pod serves in it.
const port = "3000"

func newBarePod(ctx context.Context, s *stage.Stage, kube kubernetes.Interface) (*barePod, error) {
	none, user := false, int64(1000)
	p := &barePod{kube: kube, config: s.Stack.Runtime(), namespace: metav1.NamespaceDefault}
	pod, err := kube.CoreV1().Pods(p.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-logs-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &none, RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, FSGroup: &user},
			Volumes:         []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "pod", Image: "localhost/sandbar/toolchain-node:dev", ImagePullPolicy: corev1.PullIfNotPresent,
				Command:      []string{"sh", "-c", "while [ ! -e /data/pod ]; do sleep 0.2; done; PORT=" + port + " exec /data/pod"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a bare pod: %w", err)
	}
	p.name = pod.Name
	for _, step := range []func(context.Context) error{
		p.running,
		func(ctx context.Context) error { return p.put(ctx, s.PodBinary()) },
		func(ctx context.Context) error { return stage.TellAt(ctx, p.address, "/lines/0?every=1s") },
	} {
		if err := stage.Insist(ctx, step); err != nil {
			return nil, errors.Join(fmt.Errorf("preparing a bare pod: %w", err), p.close())
		}
	}
	return p, nil
}

func (p *barePod) running(ctx context.Context) error {
	pod, err := p.kube.CoreV1().Pods(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Status.Phase != corev1.PodRunning {
		return fmt.Errorf("the pod is %s", pod.Status.Phase)
	}
	p.address = pod.Status.PodIP + ":" + port
	return nil
}

// put brings a program into the pod; it is there at once and whole.
func (p *barePod) put(ctx context.Context, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	url := p.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.namespace).Name(p.name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Command: []string{"sh", "-c", "cat > /data/new && chmod 755 /data/new && mv /data/new /data/pod"}, Stdin: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	exec, err := remotecommand.NewWebSocketExecutor(p.config, http.MethodGet, url.String())
	if err != nil {
		return err
	}
	var said bytes.Buffer
	if err := exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: bytes.NewReader(content), Stderr: &said}); err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	return nil
}

func (p *barePod) close() error {
	now := int64(0)
	return p.kube.CoreV1().Pods(p.namespace).Delete(context.Background(), p.name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}
