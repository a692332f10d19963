// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/sandbar-dev/sandbar/hack/local"
)

// copyProject copies the files of a flat folder.
func copyProject(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || e.Name()[0] == '.' || e.Name() == "package-lock.json" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// systemRoots are the public CAs, where Debian has them.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// withSystemRoots writes a file of CAs for curl: the demo's, and the public ones, so that curl goes on to
// reach other servers in the person's shell.
func withSystemRoots(caFile, dir string) (string, error) {
	own, err := os.ReadFile(caFile)
	if err != nil {
		return "", err
	}
	public, err := os.ReadFile(systemRoots)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	path := filepath.Join(dir, "ca-bundle.crt")
	return path, os.WriteFile(path, slices.Concat(own, []byte("\n"), public), 0o600)
}

// inWorkspace writes a kubeconfig of a person that points at her workspace.
func inWorkspace(stack *local.Stack, user, dir string) (string, error) {
	config, err := clientcmd.LoadFromFile(stack.Kubeconfig(user))
	if err != nil {
		return "", fmt.Errorf("reading %s's kubeconfig: %w", user, err)
	}
	host := stack.KCPUser(user, "root:"+user).Host
	for _, cluster := range config.Clusters {
		cluster.Server = host
	}
	for _, c := range config.Contexts {
		c.Namespace = "default"
	}
	path := filepath.Join(dir, user+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
