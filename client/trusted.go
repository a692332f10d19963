// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// TrustDocument is the content of the file with the data planes that may get the person's credential: what
// the command "sandbar trust" has stored.
type TrustDocument struct {
	DataPlanes []DataPlane `json:"dataPlanes"`
}

// ConfigDirVariable is the environment variable that names another folder for the person's configuration than
// "sandbar" in the one of os.UserConfigDir.
const ConfigDirVariable = "SANDBAR_CONFIG_DIR"

// TrustFile is the path of that file in the person's configuration folder. It fails if the environment names
// none: on Linux, if neither ConfigDirVariable, XDG_CONFIG_HOME nor HOME is set.
func TrustFile() (string, error) {
	dir := os.Getenv(ConfigDirVariable)
	if dir == "" {
		configs, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("finding your configuration folder: %w; set %s", err, ConfigDirVariable)
		}
		dir = filepath.Join(configs, "sandbar")
	}
	return filepath.Join(dir, "trust.json"), nil
}

// Trusted reads the data planes of such a file; none if there is no file.
func Trusted(file string) ([]DataPlane, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the trusted data planes: %w", err)
	}
	var doc TrustDocument
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("reading the trusted data planes in %s: %w", file, err)
	}
	return doc.DataPlanes, nil
}

// FromKubeconfig makes a Client of what a person has on their machine: the workspace and the credential of the
// kubeconfig, as kubectl reads it, and the data planes that they trusted with "sandbar trust". It returns the
// namespace of the kubeconfig's context too. A data plane that they trusted in another kcp does not get the credential.
func FromKubeconfig() (c *Client, namespace string, err error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil)
	workspace, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	file, err := TrustFile()
	if err != nil {
		return nil, "", err
	}
	trusted, err := Trusted(file)
	if err != nil {
		return nil, "", err
	}
	c, err = New(workspace, trusted...)
	return c, namespace, err
}
