// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/sandbar-dev/sandbar/client"
	"github.com/sandbar-dev/sandbar/hack/local"
)

// Person is the tenant in front of a terminal: the command line with a home of its own, and the
// same as a Go package. Both go through the provider's data plane with TLS, authorization and
// audit.
type Person struct {
	// Program is the command line, Home its home folder, Env what the program needs.
	Program, Home string
	Env           []string
	Instance      *client.Instance

	connect func(ctx context.Context) (*client.Client, *client.Instance, error)
	client  *client.Client
}

// Connect is another program of the same person: the sandbox, by connections of its own. The
// caller closes the client.
func (p *Person) Connect(ctx context.Context) (*client.Client, *client.Instance, error) {
	return p.connect(ctx)
}

// Person builds the command line and trusts the provider's data plane.
func (s *Stage) Person(ctx context.Context) (*Person, error) {
	home, err := os.MkdirTemp(s.Stack.Dir, "bench-home-")
	if err != nil {
		return nil, fmt.Errorf("making a home: %w", err)
	}
	p := &Person{Home: home, Program: filepath.Join(home, "bin", "sandbar")}
	if err := p.prepare(ctx, s); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Person) prepare(ctx context.Context, s *Stage) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", p.Program, "./cmd/sandbar")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building sandbar: %w\n%s", err, out)
	}
	config := s.Stack.KCPUser(user, s.Tenant.Path)
	var err error
	if p.Env, err = s.Tenant.Environment(s.Stack, p.Home); err != nil {
		return err
	}
	trust := exec.CommandContext(ctx, p.Program, "trust", s.provider.URL, "--ca-file", s.provider.CAFile)
	trust.Env = p.Env
	if out, err := trust.CombinedOutput(); err != nil {
		return fmt.Errorf("trusting the data plane: %w\n%s", err, out)
	}
	ca, err := os.ReadFile(s.provider.CAFile)
	if err != nil {
		return fmt.Errorf("reading the data plane's CA: %w", err)
	}
	p.connect = func(ctx context.Context) (*client.Client, *client.Instance, error) {
		c, err := client.New(config, client.DataPlane{URL: s.provider.URL, CABundle: ca})
		if err != nil {
			return nil, nil, err
		}
		i, err := c.Instance(ctx, client.SandboxRunners, "default", box)
		return c, i, err
	}
	return Insist(ctx, func(ctx context.Context) (err error) {
		p.client, p.Instance, err = p.connect(ctx)
		return err
	})
}

// Environment writes a kubeconfig that leads the person to the workspace into a home folder, and returns the environment
// of a program that uses both.
func (t *Tenant) Environment(stack *local.Stack, home string) ([]string, error) {
	config := stack.KCPUser(user, t.Path)
	file := clientcmdapi.NewConfig()
	file.Clusters["w"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	file.AuthInfos["w"] = &clientcmdapi.AuthInfo{Token: t.Token}
	file.Contexts["w"] = &clientcmdapi.Context{Cluster: "w", AuthInfo: "w"}
	file.CurrentContext = "w"
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := clientcmd.WriteToFile(*file, kubeconfig); err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), nil
}

// Close removes the home.
func (p *Person) Close() error {
	if p.client != nil {
		p.client.Close()
	}
	return os.RemoveAll(p.Home)
}

// Runner is the process of the sandbox's runner on this machine.
type Runner struct {
	PID int
	// Pod and Container are its names on the runtime cluster.
	Pod, Container string
	// Workspace is its workspace as this machine sees it.
	Workspace string
}

// Runner finds the runner's process by its pod's control group.
func (s *Stage) Runner(ctx context.Context) (*Runner, error) {
	pods, err := kubernetes.NewForConfigOrDie(s.Stack.Runtime()).CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("finding the sandbox's pod: %w", err)
	}
	for _, pod := range pods.Items {
		comms, err := filepath.Glob("/proc/[0-9]*/comm")
		if err != nil {
			return nil, err
		}
		for _, comm := range comms {
			dir := filepath.Dir(comm)
			name, _ := os.ReadFile(comm)
			groups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
			if strings.TrimSpace(string(name)) != "sandbar-runner" || !strings.Contains(string(groups), "pod"+string(pod.UID)) {
				continue
			}
			r := &Runner{Pod: pod.Name, Container: pod.Spec.Containers[0].Name, Workspace: filepath.Join(dir, "root", "workspace")}
			_, err := fmt.Sscan(filepath.Base(dir), &r.PID)
			return r, err
		}
	}
	return nil, errors.New("finding the runner: no process of its pod is sandbar-runner")
}

// Straight calls what a pod serves. Contexts bound its calls: some of them are streams.
var Straight = &http.Client{Transport: &http.Transport{}}

// Tell calls what bench/pod serves, straight at the pod.
func (s *Stage) Tell(ctx context.Context, path string) error { return TellAt(ctx, s.Pod, path) }

// TellAt calls what bench/pod serves at an address.
func TellAt(ctx context.Context, address, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := Straight.Do(req)
	if err != nil {
		return fmt.Errorf("telling the pod: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) //nolint:forbidigo // 4 KiB
		return fmt.Errorf("telling the pod: POST %s: %d %s", path, res.StatusCode, said)
	}
	return nil
}
