// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	syncwire "github.com/sandbar-dev/sandbar/apis/wire/sync"
	"github.com/sandbar-dev/sandbar/client"
)

// maxManifest bounds what is read of a package.json.
const maxManifest = 1 << 20

// lacksModules reports whether the package.json of a directory names packages of npm and its sandbox has none.
func lacksModules(ctx context.Context, dir string, instance *client.Instance) bool {
	if !namesPackages(filepath.Join(dir, "package.json")) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	content, err := instance.Workspace().Read(ctx, "node_modules", 0, "")
	if err == nil {
		_ = content.Close()
	}
	var answer *client.CallError
	return errors.As(err, &answer) && answer.Sandbox && answer.Code == http.StatusNotFound && answer.Reason == syncwire.CodeFileNotFound
}

// namesPackages reports whether a package.json has dependencies.
func namesPackages(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var manifest struct{ Dependencies, DevDependencies map[string]any }
	return json.NewDecoder(io.LimitReader(f, maxManifest)).Decode(&manifest) == nil && len(manifest.Dependencies)+len(manifest.DevDependencies) > 0
}
