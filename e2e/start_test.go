// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFromATokenToABoundWorkspace is the promise of the first commands: a person with the address of a workspace and a token
// gets to a workspace that has sandboxes, and doctor says at each step what comes next.
func TestFromATokenToABoundWorkspace(t *testing.T) {
	calm(t)
	tn := newWorkspace(t, "alice")
	s := newTerminal(t, tn)
	home := filepath.Dir(s.dir)
	kubeconfig := filepath.Join(home, "made-by-login")
	s.env = append(s.env, "KUBECONFIG="+kubeconfig)
	s.write("token", tn.token+"\n")
	config := world.Stack.KCPUser(tn.user, tn.path)
	ca := config.CAFile
	if ca == "" {
		s.write("ca.pem", string(config.CAData))
		ca = filepath.Join(s.dir, "ca.pem")
	}
	login := []string{"login", config.Host, "--token-file", filepath.Join(s.dir, "token"), "--certificate-authority", ca}

	if code, _, errs := s.run("doctor"); code != 1 {
		t.Errorf("doctor without a kubeconfig: exit code %d: %s", code, errs)
	}
	s.write("wrong", "not-a-token")
	wrong := append([]string{}, login...)
	wrong[3] = filepath.Join(s.dir, "wrong")
	if code, _, errs := s.run(wrong...); code != 1 || !strings.Contains(errs, "does not know the credential") {
		t.Errorf("a token that kcp does not know: exit code %d: %s", code, errs)
	}
	if _, err := os.Stat(kubeconfig); err == nil {
		t.Error("a refused login wrote the kubeconfig")
	}
	// kcp's authorizer learns of the person's role a moment later.
	eventually(t, "the person is let in", func() error {
		if code, _, errs := s.run(login...); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, errs)
		}
		return nil
	})
	if out := s.must("whoami"); !strings.Contains(out, "alice") || !strings.Contains(out, tn.path) {
		t.Errorf("whoami prints %s", out)
	}
	// A workspace gets its namespace a moment after it is ready, or from its owner.
	eventually(t, "the namespace default", func() error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := tn.kube.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	s.diagnosis("failed   binding", "sandbar bind")

	if code, _, errs := s.run("bind", "root:nobody-has-this", "--yes"); code != 1 || !strings.Contains(errs, "there is no export root:nobody-has-this:sandbar.dev, or you may not bind it") {
		t.Errorf("an export that is not there: exit code %d: %s", code, errs)
	}
	if out := s.must("bind", world.Workspace, "--yes"); out != "apibinding.apis.kcp.io/sandbar.dev created\n" {
		t.Errorf("bind prints %q", out)
	}
	// bind returns when the kinds are served, and when kcp lets the person use them.
	if _, err := tn.dyn.Resource(runners).Namespace("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("after bind: %v", err)
	}
	if out := s.must("bind", world.Workspace); out != "apibinding.apis.kcp.io/sandbar.dev unchanged\n" {
		t.Errorf("bind again prints %q", out)
	}
	s.diagnosis("failed   data plane", "sandbar trust "+world.URL)

	s.must("trust", "--yes")
	eventually(t, "all is well", func() error {
		if code, out, errs := s.run("doctor"); code != 0 || strings.Count(out, "ok  ") != 8 {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})

	s.must("logout")
	if text, err := os.ReadFile(kubeconfig); err != nil || strings.Contains(string(text), tn.path) {
		t.Errorf("after the logout the kubeconfig has %s, %v", text, err)
	}
}

// diagnosis waits until doctor fails with a line, and checks the remedy. kcp and the provider write what it reads a moment later.
func (s *terminal) diagnosis(line, remedy string) {
	s.t.Helper()
	eventually(s.t, "doctor says: "+line, func() error {
		if code, out, errs := s.run("doctor"); code != 1 || !strings.Contains(out, line) || !strings.Contains(out, remedy) {
			return fmt.Errorf("exit code %d: %s%s", code, out, errs)
		}
		return nil
	})
}
